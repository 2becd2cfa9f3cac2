-- set_counter.lua sets a counter that does not exist: the total of a semaphore, as Redisson's
-- trySetPermits does, or the count of a latch, as its RCountDownLatch does. SEM.INIT and LATCH.SET
-- call it.
-- KEYS
--   1 the counter
-- ARGV
--   1 its value
--   2 channel
--   3 ways to publish
--   4 the message. That of a latch is "1": there is a new count, and it has not reached zero
--   5 "strict": a value that is no integer is an error; "" for a latch
-- Replies
--   1: set
--   0: it exists already
-- Atomic: of two callers that set it, one succeeds.
local _, bad = readInteger(KEYS[1])
if bad and ARGV[5] == 'strict' then return bad end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
publish(ARGV[2], ARGV[3], ARGV[4])
return 1
