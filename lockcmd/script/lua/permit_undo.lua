-- permit_undo.lua gives back what one SEM.ACQUIRE of a carrier took. It does nothing if that one
-- took nothing.
-- KEYS
--   1 the semaphore
--   2 its zset
--   3 Leash's records
-- ARGV
--   1 carrier
--   2 request number of the acquire
--   3 channel
--   4 ways to publish
--   5 permits with this token or a smaller one stay
--   6... the permits
-- Replies
--   how many were given back
-- Atomic: as permit_release.lua. Permits that the carrier had before stay.
-- Rules: R26.
local bad = wrongType()
if bad then return bad end
local n = 0
for i = 6, #ARGV do
  local r = parse(redis.call('HGET', KEYS[3], ARGV[i]))
  local its = r[CARRIER] == ARGV[1] and r[REQ] == ARGV[2] and tonumber(r[TOKEN]) > tonumber(ARGV[5])
  if its and freePermit(ARGV[i], ARGV[3], ARGV[4]) == 1 then n = n + 1 end
end
return n
