-- permit_restore.lua puts permits back that a new master does not have, while it is in grace (grace.go).
-- KEYS for each permit 1 the semaphore · 2 its zset · 3 our hash · 4 its carrier's tombstone
-- ARGV, replies as restore.lua's, with the permit for the owner; a semaphore that is not there cannot have it back
-- Atomic: as restore.lua. What is available may fall below zero, until permits that were given back and are there again run out.
-- DEL comes first, so it passes at the memory limit.
local now, out = nowMillis(), {}
local late = notGranting(ARGV[1]) and -1 or now >= tonumber(ARGV[2]) and -3
local function put(count, zset, hash, stone, permit, _, ms, text)
  if late then return late end
  if redis.call('EXISTS', stone) == 1 then return -2 end
  local r, ends, mine = redis.pcall('HGET', hash, permit), redis.pcall('ZSCORE', zset, bytes(permit)), parse(text)
  if type(r) == 'table' or type(ends) == 'table' or not readInteger(count) or redis.call('EXISTS', count) == 0 then return 0 end
  r = parse(r)
  local held, same = ends and tonumber(ends) > now, r[TOKEN] == mine[TOKEN] and r[CARRIER] == mine[CARRIER]
  if held and not same then return r[TOKEN] == mine[TOKEN] and record(r) or 0 end
  if held and tonumber(ends) >= now + ms then return 2 end
  needs('DECRBY', 'ZADD', 'HSET', 'PTTL', 'PEXPIRE')
  redis.call('DEL', stone)
  if not ends then redis.call('DECRBY', count, 1) end
  redis.call('ZADD', zset, wholeText(now + ms), bytes(permit))
  redis.call('HSET', hash, permit, text)
  raiseTTL(hash, redis.call('PTTL', hash), tonumber(ms))
  return held and 2 or 1
end
for i = 1, #KEYS / 4 do
  out[i] = put(KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i], unpack(ARGV, 4 * i, 4 * i + 3))
end
return out
