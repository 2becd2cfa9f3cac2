-- rw_revoke.lua takes a count of a READ or WRITE hold back, or ends it, for a caller that is not
-- its carrier, or for a release with an ID. LOCK.RELEASE and LOCK.BREAK call it.
-- KEYS
--   1 the lock
--   2 its records
--   3 the carrier's tombstone; keys 3 and 4 not in a slot migration
--   4 the key that stores the reply to this request
-- ARGV
--   1 owner
--   2 token
--   3 carrier
--   4 "all" or ""
--   5 channel of the lock's releases
--   6 ways to publish
--   7 how long keys 3 and 4 live, ms
--   8 the carrier's channel, "" when it needs no hold event
--   9 the hold event when the hold ends
--   10 the hold event when counts remain
--   11 "broken" when LOCK.BREAK forces the end; key 3 says so; else left out
-- Replies
--   1: ended
--   0: counts remain
--   -1: no such hold; or its tombstone says broken, and LOCK.BREAK ends it; or it says lost, and
--      the rest of the hold is ended here
-- Atomic: as rw_release.lua. The stored reply must exist exactly when the request acted. Otherwise
-- a repetition would take one more count. In a slot migration the caller writes keys 3 and 4
-- itself.
-- Rules: R7, R11, R14, R30.
local again = KEYS[4] and redis.call('GET', KEYS[4])
if again then return tonumber(again) end
local key, leash, field = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX
local n, r, _, err = readHold(key, leash, field)
if err then return err end
if n == 0 or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end
local stone, breaks = KEYS[3] and redis.pcall('GET', KEYS[3]), ARGV[11] == 'broken'
-- Its holder is being told of the loss.
if stone == 'broken' and not breaks then return -1 end
-- Its holder has been told. The rest of the hold still has to end.
local lost = not breaks and type(stone) == 'string' and string.find(stone, '^lost ')
needs('SET')
if n > 1 and ARGV[4] ~= 'all' and not lost then
  decrement(key, leash, field, n, r)
  if KEYS[4] then redis.call('SET', KEYS[4], '0', 'PX', ARGV[7]) end
  if ARGV[8] ~= '' then redis.pcall('PUBLISH', ARGV[8], ARGV[10]) end
  return 0
end
endHold(key, leash, field, n, ARGV[5], ARGV[6])
local says = breaks and 'broken forced' or not lost and ARGV[8] ~= '' and 'released'
if KEYS[3] and says then redis.call('SET', KEYS[3], says, 'PX', ARGV[7]) end
if KEYS[4] and not lost then redis.call('SET', KEYS[4], '1', 'PX', ARGV[7]) end
if ARGV[8] ~= '' then redis.pcall('PUBLISH', ARGV[8], ARGV[9]) end
return lost and -1 or 1
