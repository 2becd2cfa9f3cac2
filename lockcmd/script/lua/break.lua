-- break.lua ends a hold of Redisson, as its forceUnlock does. LOCK.BREAK calls it.
-- KEYS
--   1 the lock
--   2 the key that stores the reply to this request; keys 2 to 5 not in a slot migration
--   3 the lock's FAIR queue
--   4 the queue's timeouts
--   5 Leash's own waiters
-- ARGV
--   1 owner
--   2 channel of the lock's releases
--   3 ways to publish
--   4 how long key 2 lives, ms
-- Replies
--   1: ended
--   0: this owner does not hold it, or holds it through a Leash
-- Atomic: between the check of the owner and the DEL, the lock could change hands.
-- Rules: R7, R14, R22.
local again = KEYS[2] and redis.call('GET', KEYS[2])
if again then return tonumber(again) end
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash')
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and 0 or h end
if not h[1] or parse(h[2])[TOKEN] then return 0 end
needs('SET')
redis.call('DEL', KEYS[1])
if KEYS[2] then redis.call('SET', KEYS[2], '1', 'PX', ARGV[4]) end
publish(ARGV[2], ARGV[3])
if KEYS[3] then wakeHead(3, ARGV[2], ARGV[3]) end
return 1
