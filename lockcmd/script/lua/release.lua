-- release.lua takes a count of a hold back, or ends it, in the name of its carrier. The part
-- release_alone.lua ends most holds.
-- KEYS
--   1 the lock
--   2 the turns of the Leashes that wait; keys 2 to 5 not in a slot migration
--   3 its FAIR queue
--   4 the queue's timeouts; keys 4 and 5 with FAIR only
--   5 Leash's own waiters
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
-- Atomic: between the check of token and carrier and the DEL, the lock could change hands. Its
-- first write is one that Redis allows at the memory limit.
-- Rules: R7, R11, R12, R13, R14, R21, R22.
local r = parse(h[2])
local said, takes = replyUnlessEnds(r, tonumber(h[1]))
if takes then decrement(KEYS[1], nil, ARGV[1], nil, r) end
if said then return said end
needs('GET', 'TIME', 'SET')
redis.call('DEL', KEYS[1])
callNext(KEYS[2], ARGV[8], ARGV[9] ~= '', ARGV[10], ARGV[6], ARGV[7])
if KEYS[2] then wakeHead(3, ARGV[6], ARGV[7]) end
return 1
