-- permit_renew_key.lua renews one key of a permit. The watchdog calls it in a slot migration, when
-- the keys are on two nodes.
-- KEYS
--   1 the zset, or Leash's records
-- ARGV
--   1 TTL ms, 0 to check only
--   2 permit
--   3 its record's prefix, "" for the zset
-- Replies
--   1: the permit is there
--   0: it is not
-- Atomic: as permit_renew.lua, for one key.
-- Rules: R13, R14, R23.
local key, ttl = KEYS[1], tonumber(ARGV[1])
if ARGV[3] ~= '' then
  local r = redis.call('HGET', key, ARGV[2])
  if not r or string.sub(r, 1, #ARGV[3]) ~= ARGV[3] then return 0 end
  raiseTTL(key, redis.call('PTTL', key), ttl)
  return 1
end
local now, ends = nowMillis(), redis.call('ZSCORE', key, bytes(ARGV[2]))
if not ends or tonumber(ends) <= now then return 0 end
if tonumber(ends) < now + ttl then
  needs('ZADD')
  passMemoryLimit(key)
  redis.call('ZADD', key, wholeText(now + ttl), bytes(ARGV[2]))
end
return 1
