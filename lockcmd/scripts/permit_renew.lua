-- permit_renew.lua renews permits of one slot, or only looks at them (LEASE). At most 256 a call (R24).
-- KEYS for each permit 1 the semaphore · 2 its zset · 3 our hash
-- ARGV 1 TTL ms, 0 to look only · then for each permit: its 32 digits, and how its record begins ("L1 <token> <carrier> ")
-- Replies for each permit 1 it is ours, and renewed; when only looked at, 1 and the ms it still lasts · 0 it is not ours any more
--      -1 Redis could not say
-- Atomic: a permit that was given back must not come to life again. Each has its own outcome (R25). PEXPIRE comes first, so it passes at
-- the memory limit. A lease is only ever made longer (R12).
local ttl, now, out = tonumber(ARGV[1]), nowMillis(), {}
for i = 1, #KEYS / 3 do
  local zset, hash, permit, mark = KEYS[3 * i - 1], KEYS[3 * i], ARGV[2 * i], ARGV[2 * i + 1]
  local r, ends = redis.pcall('HGET', hash, permit), redis.pcall('ZSCORE', zset, bytes(permit))
  local bad = type(r) == 'table' and r.err or type(ends) == 'table' and ends.err
  if bad then
    out[i] = string.find(bad, 'WRONGTYPE', 1, true) and 0 or -1
  elseif not r or string.sub(r, 1, #mark) ~= mark or not ends or tonumber(ends) <= now then
    out[i] = 0
  else
    local left = math.min(tonumber(ends) - now, 3e12) -- Redisson may have changed what there is to look at
    out[i] = ttl > 0 and 1 or 1 + left
    redis.call('PEXPIRE', hash, math.max(redis.call('PTTL', hash), ttl > 0 and ttl or left))
    if left < ttl then
      local set = redis.pcall('ZADD', zset, wholeText(now + ttl), bytes(permit))
      if type(set) == 'table' and set.err then out[i] = -1 end
    end
  end
end
return out
