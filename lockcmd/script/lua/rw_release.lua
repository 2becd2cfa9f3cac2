-- rw_release.lua takes a count of a READ or WRITE hold back, or ends it, in the name of its
-- carrier.
-- KEYS
--   1 the lock
--   2 its records
--   3 the turns of the Leashes that wait; not in a slot migration
-- ARGV
--   1 owner
--   2 token
--   3 carrier
--   4 request number
--   5 "all" ends it whatever its count; "=id" or "-" forgets the acquire of that ID; "" neither
--   6 channel of the lock's releases
--   7 ways to publish
--   8 this Leash in the list of turns
--   9 "" if nobody waits for the lock here
--   10 the event for the Leash whose turn it is
-- Replies
--   1: ended
--   0: counts remain
--   -1: no such hold
--   -2: a late copy, nothing done
-- Atomic: as release.lua. Whether others hold the lock is checked at the moment of the end. The
-- first write is HDEL, DEL or PEXPIRE, so it works at the memory limit.
-- Rules: R7, R11, R12, R13, R21.
local key, leash, field = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX
local n, r, _, err = readHold(key, leash, field)
if err then return err end
if n == 0 or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end
local said, takes = replyUnlessEnds(r, n)
if takes then decrement(key, leash, field, n, r) end
if said then return said end
endHold(key, leash, field, n, ARGV[6], ARGV[7], KEYS[3] and {key = KEYS[3], leash = ARGV[8], waits = ARGV[9] ~= '', event = ARGV[10]})
return 1
