-- permit_revoke.lua gives a permit back for a caller that is not its carrier. The permit itself is
-- the proof. SEM.RELEASE on another connection calls it.
-- KEYS
--   1 the semaphore
--   2 its zset
--   3 Leash's records
--   4 the carrier's tombstone, if the permit has a record
-- ARGV
--   1 permit
--   2 token in its record, "" without a record, as Redisson's permits have none
--   3 carrier in its record, "" without a record
--   4 channel
--   5 ways to publish
--   6 how long the tombstone lives, ms
--   7 the carrier's channel, "" when it needs no hold event
--   8 the hold event
-- Replies
--   {1}: given back
--   {-1}: not held, or its lease had ended
--   {-2, token, carrier, TTL ms}: its record says so; nothing done
-- Atomic: as permit_release.lua. A carrier that finds its permit gone must find the tombstone too.
-- Rules: R13, R30.
local bad = wrongType()
if bad then return bad end
local r = parse(redis.call('HGET', KEYS[3], ARGV[1]))
if (r[TOKEN] or '') ~= ARGV[2] or (r[CARRIER] or '') ~= ARGV[3] then
  return {-2, r[TOKEN] or '', r[CARRIER] or '', tonumber(r[TTL] or 0)}
end
needs('SET')
local done = freePermit(ARGV[1], ARGV[4], ARGV[5])
if done == 1 and ARGV[7] ~= '' then
  redis.call('SET', KEYS[4], 'released', 'PX', ARGV[6])
  redis.pcall('PUBLISH', ARGV[7], ARGV[8])
end
return {done}
