-- rw_inspect.lua reads a read-write lock, whoever the holders are. LOCK.INFO calls it.
-- KEYS
--   1 the lock
--   2 its records
-- ARGV
--   none
-- Replies
--   {ms left, seconds, microseconds, then for each live hold: field, count, record or ""}; 0 ms
--      when it is free
-- Atomic: holders, remaining time and Redis's clock belong to one moment.
local all, now = redis.call('HGETALL', KEYS[1]), redis.call('TIME')
local out = {0, tonumber(now[1]), tonumber(now[2])}
for i = 1, #all, 2 do
  local n = tonumber(all[i + 1])
  local ms = n and holdLeft(KEYS[1], KEYS[2], all[i], n) or 0
  if ms > 0 then
    out[1] = math.max(out[1], ms)
    for _, v in ipairs({all[i], all[i + 1], redis.call('HGET', KEYS[2], all[i]) or ''}) do out[#out + 1] = v end
  end
end
return out
