-- rw_extend.lua sets how long a READ or WRITE lease still lasts, for LOCK.EXTEND. That may be less
-- than remains.
-- KEYS
--   1 the lock
--   2 its records
--   3 the carrier's tombstone; not in a slot migration
-- ARGV
--   1... as in extend.lua
-- Replies
--   as in extend.lua
-- Atomic: as extend.lua. The lock lasts as long as the longest of its holds. The TTL in the record
-- counts from the grant.
-- Rules: R7, R12, R14, R30. No other script shortens a lease.
local key, leash, field, ms = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX, tonumber(ARGV[4])
local n, r, _, err = readHold(key, leash, field)
if err then return err end
local left, made = n > 0 and holdLeft(key, leash, field, n) or 0, parse(ARGV[3])
if left > 0 and r[EXT] == made[EXT] then return left end
if left == 0 or redis.call('HGET', leash, field) ~= ARGV[2] then return -1 end
if isBeingLost(3) then return -1 end
needs('PTTL', 'PEXPIRE', 'SET', 'HSET', 'HGETALL', 'TIME', 'DEL')
for i = 1, MINE == 'read' and n or 0 do
  local name = timeoutKey(leash, field, i)
  if i == 1 or redis.call('PTTL', name) > ms then redis.call('PEXPIRE', name, ms) end
end
if MINE == 'read' then raiseTimeout(timeoutKey(leash, field, 1), ms) end
setLease(made, ms)
redis.call('HSET', leash, field, record(made))
raiseTTL(key, redis.call('PTTL', key), ms)
local most = othersLeft(key, leash)
for _, k in ipairs({key, leash}) do redis.call('PEXPIRE', k, most) end
return reportExtension(3, ms)
