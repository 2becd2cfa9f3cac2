-- held.lua says whether a read-write lock or a permit is held through a Leash. LOCK.LIST calls it.
-- KEYS
--   1 the lock, or the semaphore
--   2 the semaphore's zset
--   3 Leash's records
-- ARGV
--   none
-- Replies
--   1: a hold with a record still lasts
--   0: none does
-- Atomic: records and holds belong to one moment.
-- "a" and "{a}" have the same helper keys.
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local now, cursor = nowMillis(), '0'
repeat
  local page = redis.call('HSCAN', KEYS[3], cursor, 'COUNT', 100)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    local field, n = page[2][i], redis.pcall('HGET', KEYS[1], page[2][i])
    if type(n) == 'string' and tonumber(n) and holdLeft(KEYS[1], KEYS[3], field, tonumber(n)) > 0 then return 1 end
    local ends = string.find(field, '^%x+$') and redis.pcall('ZSCORE', KEYS[2], bytes(field))
    if type(ends) == 'string' and tonumber(ends) > now then return 1 end
  end
until cursor == '0'
return 0
