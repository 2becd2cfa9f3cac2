-- touch.lua lets WAIT on this connection count what is known of a lock by now: since Redis 7.2 it goes by what its own connection has
-- written, and who repeats a request has written nothing.
-- KEYS 1 the lock
-- Replies 1 · 0 there is no such key
-- Atomic: for a key that lasts for ever, that it does again.
local left = redis.call('PTTL', KEYS[1])
if left == -2 then return 0 end
redis.call('PEXPIRE', KEYS[1], left == -1 and 60000 or math.max(left, 1))
if left == -1 then redis.call('PERSIST', KEYS[1]) end
return 1
