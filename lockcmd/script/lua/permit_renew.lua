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
-- Atomic: a permit that was given back must not come back to life. PEXPIRE comes first, so it works
-- at the memory limit.
-- Rules: R11, R12, R13, R23, R24, R25.
local ttl, now, out = tonumber(ARGV[1]), nowMillis(), {}
local mayWrite = ttl == 0 or pcall(needs, 'PEXPIRE', 'ZADD')
for i = 1, #KEYS / 3 do
  local zset, hash, permit, mark = KEYS[3 * i - 1], KEYS[3 * i], ARGV[2 * i], ARGV[2 * i + 1]
  local r, ends = redis.pcall('HGET', hash, permit), redis.pcall('ZSCORE', zset, bytes(permit))
  local bad = type(r) == 'table' and r.err or type(ends) == 'table' and ends.err
  if bad then
    out[i] = string.find(bad, 'WRONGTYPE', 1, true) and 0 or -1
  elseif not r or string.sub(r, 1, #mark) ~= mark or not ends or tonumber(ends) <= now then
    out[i] = 0
  elseif not mayWrite then
    out[i] = -1
  else
    -- Redisson may have changed the end.
    local left = math.min(tonumber(ends) - now, 3e12)
    out[i] = ttl > 0 and 1 or 1 + left
    redis.call('PEXPIRE', hash, math.max(redis.call('PTTL', hash), ttl > 0 and ttl or left))
    if left < ttl then
      local set = redis.pcall('ZADD', zset, wholeText(now + ttl), bytes(permit))
      if type(set) == 'table' and set.err then out[i] = -1 end
    end
  end
end
return out
