-- rw_restore.lua restores READ or WRITE holds on a new master in its grace period
-- (lockcmd/failover).
-- KEYS
--   for each hold:
--   1 the lock
--   2 its records
--   3 its token counter
--   4 its carrier's tombstone
-- ARGV
--   1... as in restore.lua
-- Replies
--   -1: nothing done: another master, or Redis refused to read the hold
--   the others are as in restore.lua
-- Atomic: as restore.lua. A writer excludes the holds of other owners. A hold with a smaller token
-- had ended before this one was granted, so it is removed. A hold with a larger token or with none
-- keeps this one out. DEL comes first, so it works at the memory limit.
-- Rules: R6, R13.
return restoreEach(4, function(i, owner, count, ms, text)
  local key, leash, counter = unpack(KEYS, 4 * i - 3, 4 * i - 1)
  local field, r = owner .. SUFFIX, parse(text)
  ageFromZero(r)
  local n, there, err, mode = readHold(key, leash, field)
  if err or redis.call('EXISTS', key) == 1 and not mode then return err and -1 or 0 end
  local same = n > 0 and there[TOKEN] == r[TOKEN]
  local mine = same and there[CARRIER] == r[CARRIER]
  if same and not mine and holdLeft(key, leash, field, n) > 0 then return record(there) end
  if mine and tonumber(there[REQ]) >= tonumber(r[REQ]) then return 2 end
  needs('HKEYS', 'HGET', 'TIME', 'PTTL', 'PEXPIRE', 'HSET', 'HDEL', 'SET')
  redis.call('DEL', KEYS[4 * i])
  mode = makeRoom(key, leash, field, owner, r[TOKEN])
  if not mode then return 0 end
  if not renewed(r[OPTS]) then setLease(r, ms)
  elseif MINE == 'write' then extendUntil(r, tonumber(ms)) end
  for j = 1, MINE == 'read' and math.min(count, 10000) or 0 do raiseTimeout(timeoutKey(leash, field, j), tonumber(ms)) end
  redis.call('HSET', key, 'mode', mode, field, count)
  redis.call('HSET', leash, field, record(r))
  for _, k in ipairs({key, leash}) do raiseTTL(k, redis.call('PTTL', k), tonumber(ms)) end
  raiseCounter(counter, r[TOKEN], ARGV[3])
  return same and 2 or 1
end)
