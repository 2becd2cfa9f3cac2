-- set_latch.lua sets the count of a latch that has none, as Redisson's RCountDownLatch does.
-- LATCH.SET calls it.
-- KEYS
--   1 the latch
-- ARGV
--   1 the count
--   2 channel
--   3 ways to publish
-- Replies
--   1: set
--   0: the latch has a count already
-- Atomic: of two callers that set it, one succeeds. The message "1" tells waiters that there is a
-- new count, not that it has reached zero.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
publish(ARGV[2], ARGV[3], '1')
return 1
