-- break.lua ends a hold of Redisson, as its forceUnlock does. Other holds of a READ lock stay.
-- LOCK.BREAK calls it.
-- KEYS
--   1 the lock
--   with READ and WRITE only: its records; the numbers below are then larger by one
--   2 the key that stores the reply to this request; keys 2 to 5 not in a slot migration
--   3 the lock's FAIR queue; keys 3 to 5 not with READ and WRITE
--   4 the queue's timeouts
--   5 Leash's own waiters
-- ARGV
--   1 owner
--   2 channel of the lock's releases
--   3 ways to publish
--   4 how long key 2 lives, ms
-- Replies
--   1: ended
--   0: this owner does not hold it in this mode, or holds it through a Leash
-- Atomic: between the check of the owner and the end, the lock could change hands.
-- Rules: R7, R14, R22.
local key, leash, field, answer = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX, KEYS[AFTER]
local again = answer and redis.call('GET', answer)
if again then return tonumber(again) end
local n, r, err = readHold(key, leash, field)
if err then return err end
if n == 0 or r[TOKEN] then return 0 end
needs('SET')
endHold(key, leash, field, n, ARGV[2], ARGV[3])
if answer then redis.call('SET', answer, '1', 'PX', ARGV[4]) end
return 1
