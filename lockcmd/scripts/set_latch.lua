-- set_latch.lua sets the count of a latch that has none, as Redisson's RCountDownLatch does.
-- KEYS 1 the latch
-- ARGV 1 the count · 2 channel · 3 ways to publish
-- Replies 1 set · 0 it has one
-- Atomic: of two who set it, one does. "1" tells those who wait that there is a new count, and not that it has come to zero.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
publish(ARGV[2], ARGV[3], '1')
return 1
