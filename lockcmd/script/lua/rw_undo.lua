-- rw_undo.lua takes back what one LOCK.ACQUIRE of a carrier did to a READ or WRITE hold. If that
-- one did nothing, a late copy of it will do nothing.
-- KEYS
--   1 the lock
--   2 its records
-- ARGV
--   1... as in undo.lua
-- Replies
--   as in undo.lua
-- Atomic: as rw_release.lua. The carrier's later requests stay as they are.
-- Rules: R7, R11, R26.
local key, leash, field = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX
local n, r, _, err = readHold(key, leash, field)
if err then return err end
local last, req = tonumber(r[REQ]), tonumber(ARGV[3])
if n == 0 or r[CARRIER] ~= ARGV[2] or r[TOKEN] == ARGV[7] or last > req then return -1 end
if last == req and n == 1 then
  endHold(key, leash, field, n, ARGV[5], ARGV[6])
  return 1
end
r[REQ], r[REPLY] = ARGV[4], '0'
if last == req then
  -- A repetition under that ID counts again (R7).
  r[ID] = '-'
  decrement(key, leash, field, n, r)
  return 0
end
needs('HSET')
passMemoryLimit(leash)
redis.call('HSET', leash, field, record(r))
return -1
