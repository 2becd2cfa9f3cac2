-- permit_restore.lua restores permits on a new master in its grace period (lockcmd/failover). A
-- missing semaphore gets none back.
-- KEYS
--   for each permit:
--   1 the semaphore
--   2 its zset
--   3 Leash's records
--   4 its carrier's tombstone
-- ARGV
--   1... as in restore.lua; the permit is the owner, and 3 is not used here
-- Replies
--   2: it is there; its lease was set later if needed
--   0: another hold of it is there, or the semaphore is missing
--   the others are as in restore.lua
-- Atomic: as restore.lua. The number of available permits may fall below zero. Permits that were
-- given back before the failover can be restored; the number rises when they expire. DEL comes
-- first, so it works at the memory limit.
-- Rules: R13, R23.
local now = nowMillis()
return restoreEach(4, function(i, permit, _, ms, text)
  local count, zset, hash = unpack(KEYS, 4 * i - 3, 4 * i - 1)
  local r, ends, mine = redis.pcall('HGET', hash, permit), redis.pcall('ZSCORE', zset, bytes(permit)), parse(text)
  if type(r) == 'table' or type(ends) == 'table' or not readInteger(count) or redis.call('EXISTS', count) == 0 then return 0 end
  r = parse(r)
  local held, same = ends and tonumber(ends) > now, r[TOKEN] == mine[TOKEN] and r[CARRIER] == mine[CARRIER]
  if held and not same then return r[TOKEN] == mine[TOKEN] and record(r) or 0 end
  if held and tonumber(ends) >= now + ms then return 2 end
  needs('DECRBY', 'ZADD', 'HSET', 'PTTL', 'PEXPIRE')
  redis.call('DEL', KEYS[4 * i])
  if not ends then redis.call('DECRBY', count, 1) end
  redis.call('ZADD', zset, wholeText(now + ms), bytes(permit))
  redis.call('HSET', hash, permit, text)
  raiseTTL(hash, redis.call('PTTL', hash), tonumber(ms))
  return held and 2 or 1
end, 'HGET', 'ZSCORE')
