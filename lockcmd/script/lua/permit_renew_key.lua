-- permit_renew_key.lua renews a permit in its zset alone. The watchdog calls it in a slot
-- migration, when the keys are on two nodes. It renews the records by rw_renew_key.lua.
-- KEYS
--   1 the zset
-- ARGV
--   1 TTL ms, 0 to check only
--   2 permit
-- Replies
--   1: the permit is there
--   0: it is not
-- Atomic: as permit_renew.lua, for one key.
-- Rules: R13, R14, R23.
local key, ttl = KEYS[1], tonumber(ARGV[1])
local now, ends = nowMillis(), redis.call('ZSCORE', key, bytes(ARGV[2]))
if not ends or tonumber(ends) <= now then return 0 end
if tonumber(ends) < now + ttl then
  needs('ZADD')
  passMemoryLimit(key)
  redis.call('ZADD', key, wholeText(now + ttl), bytes(ARGV[2]))
end
return 1
