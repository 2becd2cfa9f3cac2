-- take.lua takes permits from a plain counter, that of Redisson's RSemaphore.
-- KEYS 1 the counter
-- ARGV 1 how many, at least 1
-- Replies {1, how many remain} taken · {0} there are not so many
-- Atomic: looking and taking must be one step, or two take the last permit.
local have, bad = readInteger(KEYS[1])
if bad then return bad end
if have < tonumber(ARGV[1]) then return {0} end
return {1, redis.call('DECRBY', KEYS[1], ARGV[1])}
