-- revoke.lua takes a count of a hold back, or ends it, for a caller that is not its carrier, or for
-- a release with an ID. LOCK.RELEASE and LOCK.BREAK call it.
-- KEYS
--   1 the lock
--   2 the carrier's tombstone; keys 2 to 6 not in a slot migration
--   3 the key that stores the reply to this request
--   4 its FAIR queue
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
--   11 "broken" when LOCK.BREAK forces the end; key 2 says so; else left out
-- Replies
--   1: ended
--   0: counts remain
--   -1: no such hold; or its tombstone says broken, and LOCK.BREAK ends it; or it says lost, and
--      the rest of the hold is ended here
-- Atomic: as release.lua. The stored reply must exist exactly when the request acted. Otherwise a
-- repetition would take one more count. In a slot migration the caller writes keys 2 and 3 itself.
-- Rules: R7, R11, R14, R22, R30.
local again = KEYS[3] and redis.call('GET', KEYS[3])
if again then return tonumber(again) end
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash')
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and -1 or h end
local r = parse(h[2])
if not h[1] or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end
local broken, lost = readTombstone(2)
if broken then return -1 end
if tonumber(h[1]) > 1 and ARGV[4] ~= 'all' and not lost then
  needs('SET')
  takeBack(r)
  return reportCount(2)
end
needs('SET')
redis.call('DEL', KEYS[1])
local said = reportEnd(2, lost)
publish(ARGV[5], ARGV[6])
if KEYS[4] then wakeHead(4, ARGV[5], ARGV[6]) end
return said
