-- rw_break.lua ends a READ or WRITE hold of Redisson, as its forceUnlock does. Other holds of the
-- lock stay. LOCK.BREAK calls it.
-- KEYS
--   1 the lock
--   2 its records
--   3 the key that stores the reply to this request; not in a slot migration
-- ARGV
--   1 owner
--   2 channel of the lock's releases
--   3 ways to publish
--   4 how long key 3 lives, ms
-- Replies
--   1: ended
--   0: this owner does not hold it in this mode, or holds it through a Leash
-- Atomic: as rw_release.lua.
-- Rules: R7, R14.
local again = KEYS[3] and redis.call('GET', KEYS[3])
if again then return tonumber(again) end
local field = ARGV[1] .. SUFFIX
local n, r, _, err = readHold(KEYS[1], KEYS[2], field)
if err then return err end
if n == 0 or r[TOKEN] then return 0 end
needs('SET')
endHold(KEYS[1], KEYS[2], field, n, ARGV[2], ARGV[3])
if KEYS[3] then redis.call('SET', KEYS[3], '1', 'PX', ARGV[4]) end
return 1
