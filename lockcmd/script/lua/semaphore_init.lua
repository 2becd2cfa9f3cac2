-- semaphore_init.lua sets the total of a semaphore that has none, as Redisson's trySetPermits does.
-- SEM.INIT calls it.
-- KEYS
--   1 the semaphore
-- ARGV
--   1 how many permits
--   2 channel
--   3 ways to publish
-- Replies
--   1: set
--   0: it has a total already
-- Atomic: of two callers that set it, one succeeds.
local have, bad = readInteger(KEYS[1])
if bad then return bad end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
publish(ARGV[2], ARGV[3], ARGV[1])
return 1
