-- leave.lua takes waiters that have given up out of a FAIR lock's queue (R22), as if they left one by one; but not who is heard of
-- through another Leash, too.
-- KEYS 1 the lock · 2 its queue · 3 the queue's timeouts · 4 our waiters
-- ARGV 1 channel of the lock's releases · 2 ways to publish · 3 this Leash's bit · 4... their owners, each once
-- Replies 1
-- Atomic: a lock that was free for one of them is told to the next one, or nobody takes it.
local q = fair(2)
q.leave({unpack(ARGV, 4)}, tonumber(ARGV[3]))
if redis.call('EXISTS', KEYS[1]) == 0 then q.rouse(ARGV[1], ARGV[2]) end
return 1
