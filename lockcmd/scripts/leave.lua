-- leave.lua takes a waiter that has given up out of a FAIR lock's queue (R22).
-- KEYS 1 the lock · 2 its queue · 3 the queue's timeouts · 4 our waiters
-- ARGV 1 owner · 2 channel of the lock's releases · 3 ways to publish
-- Replies 1
-- Atomic: a lock that was free for it is told to the next one, or nobody takes it.
local q = fair(2)
q.remove(ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 0 then q.rouse(ARGV[2], ARGV[3]) end
return 1
