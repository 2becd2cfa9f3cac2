-- dequeue.lua takes waiters that gave up out of a FAIR queue, as if they left one by one.
-- KEYS
--   1 the lock
--   2 its FAIR queue
--   3 the queue's timeouts
--   4 Leash's own waiters
-- ARGV
--   1 channel of the lock's releases
--   2 ways to publish
--   3... the owners, each once
-- Replies
--   1: done
-- Atomic: when the lock is free, the next waiter must get a wake-up, or nobody takes the lock.
-- Rules: R22.
needsForQueue()
local q = fairQueue(2)
q.remove({unpack(ARGV, 3)})
if redis.call('EXISTS', KEYS[1]) == 0 then q.wakeHead(ARGV[1], ARGV[2]) end
return 1
