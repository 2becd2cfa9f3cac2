-- rw_renew.lua renews READ or WRITE holds of one slot, or checks them (LEASE), for the watchdog. At
-- most 256 a call.
-- KEYS
--   for each hold:
--   1 the lock
--   2 its records
-- ARGV
--   1 TTL ms, 0 to check only
--   2... for each hold: its owner, and the record's prefix ("L1 <token> <carrier> ")
-- Replies
--   for each hold:
--   1 + ms that the lock would have lasted: it is ours, and renewed
--   1 + ms that the hold lasts: it is ours, and only checked
--   0: it is not ours any more, or its lease is over
--   -1: Redis could not say
--   or UNRENEWED and an error: Redis takes no writes now
-- Atomic: as renew.lua. The lock is renewed for as long as a READ hold lasts, also a lease. The
-- reason: a Java reader's renewal sets the lock's TTL plainly. The READ hold of the same owner does
-- not renew a WRITE hold.
-- Rules: R11, R12, R13, R24, R25.
local ttl = tonumber(ARGV[1])
local mayWrite = pcall(needs, 'TIME', 'PTTL', 'PEXPIRE', 'PERSIST', 'SET', 'HSET', 'HDEL')
return renewEach(2, function(i, owner, mark)
  local key, leash, field = KEYS[2 * i - 1], KEYS[2 * i], owner .. SUFFIX
  local h, text = redis.call('HMGET', key, field, 'mode'), redis.call('HGET', leash, field)
  local n = tonumber(h[1] or 0) or 0
  if n == 0 or not text or string.sub(text, 1, #mark) ~= mark then return 0 end
  local left, mine = redis.call('PTTL', key), holdLeft(key, leash, field, n)
  -- The lease is over.
  if mine == 0 and ttl == 0 then return 0 end
  if not mayWrite then return -1 end
  local lock = MINE == 'read' and math.max(ttl, mine) or ttl
  local extends = MINE == 'write' and ttl > 0 and string.find(text, 'until=', 1, true)
  local drops = not extends and MINE == 'read' and h[2] == 'write' and holdLeft(key, leash, field .. ':write', 1) == 0
  raiseTTL(key, left, lock)
  raiseTTL(leash, redis.call('PTTL', leash), lock)
  if extends then
    -- This comes first, because Redis allows it at maxmemory (R13).
    passMemoryLimit(key)
    redis.call('HSET', leash, field, record(extendUntil(parse(text), ttl)))
  elseif drops then dropWriteHold(key, leash, field .. ':write') end
  for i = 1, MINE == 'read' and ttl > 0 and math.min(n, 10000) or 0 do raiseTimeout(timeoutKey(leash, field, i), ttl) end
  return 1 + (ttl > 0 and math.max(left, 0) or mine)
end)
