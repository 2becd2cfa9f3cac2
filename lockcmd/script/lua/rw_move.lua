-- rw_move.lua gives a READ or WRITE hold another carrier. LOCK.ATTACH calls it, and so does a
-- repeated LOCK.ACQUIRE with the hold's last ID.
-- KEYS
--   1 the lock
--   2 its records
--   3 the old carrier's tombstone
--   4 the new carrier's tombstone
-- ARGV
--   1... as in move.lua
-- Replies
--   {1, token, ms left, count, the hold's age in ms, its record}: it has the new carrier
--   {-1}: no such hold, or it has changed
-- Atomic: as move.lua.
-- Rules: R4, R7, R11, R30.
local key, leash, field = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX
local n, r, _, err = readHold(key, leash, field)
if err then return err end
local left = n > 0 and holdLeft(key, leash, field, n) or 0
if left == 0 or r[TOKEN] ~= ARGV[2] or (ARGV[5] ~= '' and r[ID] ~= ARGV[5]) then return {-1} end
if r[CARRIER] == ARGV[6] then return {1, tonumber(r[TOKEN]), left, n, age(r), record(r)} end
if not isOfOldCarrier(r) then return {-1} end
needs('TIME', 'HSET', 'SET', 'DEL', 'PTTL', 'PEXPIRE')
if renewed(r[OPTS]) then
  left = math.max(left, tonumber(r[TTL]))
  if MINE == 'write' and endAge(r) then extendUntil(r, left) end
  for i = 1, MINE == 'read' and n or 0 do raiseTimeout(timeoutKey(leash, field, i), left) end
end
local text = setCarrier(r)
redis.call('HSET', leash, field, text)
raiseTTL(key, redis.call('PTTL', key), left)
raiseTTL(leash, redis.call('PTTL', leash), left)
reportMove(3, r)
return {1, tonumber(r[TOKEN]), left, n, age(r), text}
