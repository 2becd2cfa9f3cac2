-- rw_revoke.lua takes a count of a READ or WRITE hold back, or ends it, for a caller that is not
-- its carrier, or for a release with an ID. LOCK.RELEASE and LOCK.BREAK call it.
-- KEYS
--   1 the lock
--   2 its records
--   3 the carrier's tombstone; keys 3 and 4 not in a slot migration
--   4 the key that stores the reply to this request
-- ARGV
--   1... as in revoke.lua; keys 3 and 4 are its keys 2 and 3
-- Replies
--   as in revoke.lua
-- Atomic: as rw_release.lua and revoke.lua.
-- Rules: R7, R11, R14, R30.
local again = KEYS[4] and redis.call('GET', KEYS[4])
if again then return tonumber(again) end
local key, leash, field = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX
local n, r, _, err = readHold(key, leash, field)
if err then return err end
if n == 0 or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end
local broken, lost = readTombstone(3)
if broken then return -1 end
needs('SET')
if n > 1 and ARGV[4] ~= 'all' and not lost then
  decrement(key, leash, field, n, r)
  return reportCount(3)
end
endHold(key, leash, field, n, ARGV[5], ARGV[6])
return reportEnd(3, lost)
