-- permit_release.lua gives a permit back in the name of its carrier. SEM.RELEASE calls it, and so
-- does the end of a connection.
-- KEYS
--   1 the semaphore
--   2 its zset
--   3 Leash's records
--   4 the turns of the Leashes that wait; not in a slot migration
-- ARGV
--   1 permit
--   2... as in release.lua; 4 and 5 are not used here
-- Replies
--   1: given back
--   -1: not held, or its lease had ended
-- Atomic: the permit leaves and the number of available ones rises in one step. As in Redisson, a
-- permit is given back even when its lease had ended. ZREM comes first, so it works at the memory
-- limit.
-- Rules: R11, R13, R21, R23.
local bad = wrongType()
if bad then return string.find(bad.err, 'WRONGTYPE', 1, true) and -1 or bad end
local r = parse(redis.call('HGET', KEYS[3], ARGV[1]))
if r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end
return freePermit(ARGV[1], ARGV[6], ARGV[7], KEYS[4] and {key = KEYS[4], leash = ARGV[8], waits = ARGV[9] ~= '', event = ARGV[10]})
