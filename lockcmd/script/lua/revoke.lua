-- revoke.lua takes a count of a hold back, or ends it, for a caller that is not its carrier, or for
-- a release with an ID. LOCK.RELEASE and LOCK.BREAK call it.
-- KEYS
--   1 the lock
--   with READ and WRITE only: its records; the numbers below are then larger by one
--   2 the carrier's tombstone; keys 2 to 6 not in a slot migration
--   3 the key that stores the reply to this request
--   4 its FAIR queue; keys 4 to 6 not with READ and WRITE
--   5 the queue's timeouts
--   6 Leash's own waiters
-- ARGV
--   1 owner
--   2 token
--   3 carrier
--   4 "all" or ""
--   5 channel of the lock's releases
--   6 ways to publish
--   7 how long keys 2 and 3 live, ms
--   8 the carrier's channel, "" when it needs no hold event
--   9 the hold event when the hold ends
--   10 the hold event when counts remain
--   11 "broken" when LOCK.BREAK forces the end, whatever key 2 says; else left out
-- Replies
--   1: ended
--   0: counts remain
--   -1: no such hold; or its tombstone says broken, and LOCK.BREAK ends it; or it says lost, and
--      the rest of the hold is ended here
-- Atomic: as release.lua. The stored reply must exist exactly when the request acted. Otherwise a
-- repetition would take one more count. In a slot migration the caller writes keys 2 and 3 itself.
-- Rules: R7, R11, R14, R22, R30.
local key, leash, field, tombstone, answer = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX, KEYS[AFTER], KEYS[AFTER + 1]
local again = answer and redis.call('GET', answer)
if again then return tonumber(again) end
local n, r, err = readHold(key, leash, field)
if err then return err end
if n == 0 or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end
local forced = ARGV[11] == 'broken'
local text = not forced and tombstone and redis.pcall('GET', tombstone)
if text == 'broken' then return -1 end
local lost = type(text) == 'string' and string.find(text, '^lost ')
local remains = n > 1 and ARGV[4] ~= 'all' and not lost
local says = forced and 'broken forced' or not lost and ARGV[8] ~= '' and 'released'
needs('SET')
if remains then decrement(key, leash, field, n, r) else endHold(key, leash, field, n, ARGV[5], ARGV[6]) end
if tombstone and says and not remains then redis.call('SET', tombstone, says, 'PX', ARGV[7]) end
if answer and not lost then redis.call('SET', answer, remains and '0' or '1', 'PX', ARGV[7]) end
if ARGV[8] ~= '' then redis.pcall('PUBLISH', ARGV[8], remains and ARGV[10] or ARGV[9]) end
return lost and -1 or remains and 0 or 1
