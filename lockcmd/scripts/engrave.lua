-- engrave.lua leaves a tombstone that says to other Leashes how a hold has ended.
-- KEYS 1 the tombstone
-- ARGV 1 what it says · 2 how long it lives, ms
-- Replies 1 it says so · 0 one is there that says more
-- Atomic: one that somebody lays meanwhile must stay, but for that of an EXTEND, which does not say how the hold has ended.
local text = redis.pcall('GET', KEYS[1])
if type(text) == 'string' and not string.find(text, '^extended ') then return 0 end
redis.call('DEL', KEYS[1]) -- first, for Redis allows it at maxmemory (R13)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
