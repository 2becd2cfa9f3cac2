-- restore.lua restores holds on a new master in its grace period. That master has not granted
-- anything yet (lockcmd/failover).
-- KEYS
--   for each hold:
--   1 the lock
--   2 its token counter
--   3 its carrier's tombstone
-- ARGV
--   1 the master's replication id
--   2 end of the grace period, ms since 1970
--   3 how long the token counter lives, ms; 0 without end
--   4... for each hold: its owner, its count, ms that it lasts, its record
-- Replies
--   for each hold:
--   2: it is there; an older state of it was corrected
--   1: it was restored
--   0: another hold is there
--   its record: it is there and has another carrier
--   -1: nothing done: another master
--   -2: nothing done: it has a tombstone
--   -3: nothing done: the grace period is over by this clock
-- Atomic: another hold must not come between the check and the write. A hold with a smaller token
-- had ended before this one was granted; only its end was forgotten. So it is replaced. The token
-- counter rises too, so that the next token is larger. DEL comes first, so it works at the memory
-- limit.
-- Rules: R6, R13.
return restoreEach(3, function(i, owner, count, ms, text)
  local key, counter = KEYS[3 * i - 2], KEYS[3 * i - 1]
  local h, r = redis.pcall('HMGET', key, owner, 'leash', 'mode'), parse(text)
  ageFromZero(r)
  text = record(r)
  local there, other = redis.call('EXISTS', key) == 1, not h.err and parse(h[2]) or {}
  local same = h[1] and other[TOKEN] == r[TOKEN]
  if same and other[CARRIER] ~= r[CARRIER] then return h[2] end
  if same and tonumber(other[REQ]) >= tonumber(r[REQ]) then return 2 end
  local older = h[2] and not h[3] and tonumber(other[TOKEN] or r[TOKEN]) < tonumber(r[TOKEN])
  if there and not older and not same then return 0 end
  if same then passMemoryLimit(key) else redis.call('DEL', key) end
  redis.call('HSET', key, owner, count, 'leash', text)
  raiseTTL(key, redis.call('PTTL', key), tonumber(ms))
  raiseCounter(counter, r[TOKEN], ARGV[3])
  return same and 2 or 1
end, 'HMGET', 'PTTL', 'PEXPIRE', 'PERSIST', 'HSET', 'DEL', 'SET')
