-- permit_renew.lua renews permits of one slot, or checks them (LEASE), for the watchdog. At most
-- 256 a call.
-- KEYS
--   for each permit:
--   1 the semaphore
--   2 its zset
--   3 Leash's records
-- ARGV
--   1 TTL ms, 0 to check only
--   2... for each permit: its 32 hex digits, and its record's prefix ("L1 <token> <carrier> ")
-- Replies
--   for each permit:
--   1: it is ours, and renewed
--   1 + ms left: it is ours, and only checked
--   0: it is not ours any more
--   -1: Redis could not say
--   or UNRENEWED and an error: Redis takes no writes now
-- Atomic: a permit that was given back must not come back to life. PEXPIRE comes first, so it works
-- at the memory limit.
-- Rules: R11, R12, R13, R23, R24, R25.
local ttl, now = tonumber(ARGV[1]), nowMillis()
local mayWrite = ttl == 0 or pcall(needs, 'PEXPIRE', 'ZADD')
return renewEach(3, function(i, permit, mark)
  local zset, hash = KEYS[3 * i - 1], KEYS[3 * i]
  local r, ends = redis.call('HGET', hash, permit), redis.call('ZSCORE', zset, bytes(permit))
  if not r or string.sub(r, 1, #mark) ~= mark or not ends or tonumber(ends) <= now then return 0 end
  if not mayWrite then return -1 end
  -- Redisson may have changed the end.
  local left = math.min(tonumber(ends) - now, 3e12)
  redis.call('PEXPIRE', hash, math.max(redis.call('PTTL', hash), ttl > 0 and ttl or left))
  if left < ttl then redis.call('ZADD', zset, wholeText(now + ttl), bytes(permit)) end
  return ttl > 0 and 1 or 1 + left
end)
