-- inspect.lua shows a lock, whoever holds it.
-- KEYS 1 the lock
-- Replies {PTTL, seconds, microseconds, field, value ...}; PTTL -2 when it is free
-- Atomic: holder, remaining time and Redis's clock of one moment.
local h = redis.pcall('HGETALL', KEYS[1])
if h.err then return h end
local now = redis.call('TIME')
local out = {redis.call('PTTL', KEYS[1]), tonumber(now[1]), tonumber(now[2])}
for i, v in ipairs(h) do out[i + 3] = v end
return out
