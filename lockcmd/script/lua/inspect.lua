-- inspect.lua reads a plain or FAIR lock, whoever the holder is. LOCK.INFO calls it.
-- KEYS
--   1 the lock
--   2 its FAIR queue; not in a slot migration
-- ARGV
--   none
-- Replies
--   {PTTL, seconds, microseconds, queue length, field, value ...}; PTTL is -2 when it is free
-- Atomic: holder, remaining time and Redis's clock belong to one moment.
-- Rules: R14.
local h = redis.pcall('HGETALL', KEYS[1])
if h.err then return h end
local now = redis.call('TIME')
local queue = KEYS[2] and redis.pcall('LLEN', KEYS[2])
local out = {redis.call('PTTL', KEYS[1]), tonumber(now[1]), tonumber(now[2]), tonumber(queue) or 0}
for i, v in ipairs(h) do out[i + 4] = v end
return out
