-- dequeue.lua takes waiters that have given up out of a FAIR lock's queue (R22), as if they left one by one; but not who is heard of
-- through another Leash, too.
-- KEYS 1 the lock · 2 its queue · 3 the queue's timeouts · 4 our waiters
-- ARGV 1 channel of the lock's releases · 2 ways to publish · 3 this Leash's bit
--      4 ms in which other Leashes must have let hear of those whom they let wait; 0 when these have passed since they were asked to leave
--      5... their owners, each once
-- Replies 1 all have left · 0 some stay, for the time being
-- Atomic: a lock that was free for one of them is told to the next one, or nobody takes it.
needsForQueue()
local q = fairQueue(2)
local stays = q.dequeue({unpack(ARGV, 5)}, tonumber(ARGV[3]), tonumber(ARGV[4]))
if redis.call('EXISTS', KEYS[1]) == 0 then q.wakeHead(ARGV[1], ARGV[2]) end
return stays and 0 or 1
