-- touch.lua makes WAIT on this connection count all that is known of a lock so far. Since Redis
-- 7.2, WAIT counts what its own connection has written. A repeated request has written nothing.
-- KEYS
--   1 the lock
-- ARGV
--   none
-- Replies
--   1: done
--   0: there is no such key
-- Atomic: a key without a TTL gets a TTL for a moment, and loses it in the same script.
-- Rules: R32.
local left = redis.call('PTTL', KEYS[1])
if left == -2 then return 0 end
if left == -1 then needs('PERSIST') end
redis.call('PEXPIRE', KEYS[1], left == -1 and 60000 or math.max(left, 1))
if left == -1 then redis.call('PERSIST', KEYS[1]) end
return 1
