-- take.lua takes permits from a plain counter, the one of Redisson's RSemaphore. SEM.TAKE calls it.
-- KEYS
--   1 the counter
-- ARGV
--   1 how many permits, at least 1
-- Replies
--   {1, how many remain}: taken
--   {0}: fewer are available
-- Atomic: otherwise two callers could take the last permit.
local have, bad = readInteger(KEYS[1])
if bad then return bad end
if have < tonumber(ARGV[1]) then return {0} end
return {1, redis.call('DECRBY', KEYS[1], ARGV[1])}
