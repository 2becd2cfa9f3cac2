-- rw_release.lua takes a count of a READ or WRITE hold back, or ends it, in the name of its
-- carrier.
-- KEYS
--   1 the lock
--   2 its records
--   3 the turns of the Leashes that wait; not in a slot migration
-- ARGV
--   1... as in release.lua
-- Replies
--   as in release.lua
-- Atomic: as release.lua. Whether others hold the lock is checked at the moment of the end. The
-- first write is HDEL, DEL or PEXPIRE, so it works at the memory limit.
-- Rules: R7, R11, R12, R13, R21.
local key, leash, field = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX
local n, r, err = readHold(key, leash, field)
if err then return err end
if n == 0 or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end
local said, takes = replyUnlessEnds(r, n)
if takes then decrement(key, leash, field, n, r) end
if said then return said end
endHold(key, leash, field, n, ARGV[6], ARGV[7], KEYS[3] and {key = KEYS[3], leash = ARGV[8], waits = ARGV[9] ~= '', event = ARGV[10]})
return 1
