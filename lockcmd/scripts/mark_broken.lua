-- mark_broken.lua tells a carrier that its hold is to be broken.
-- KEYS 1 the carrier's tombstone
-- ARGV 1 how long it lives, ms · 2 the carrier's channel · 3 what to say there
-- Replies 1 told · 0 the hold hangs on that carrier no more
-- Atomic: what the hold's owner has done to it meanwhile must not look like a loss.
local text = redis.call('GET', KEYS[1]) or ''
local how = string.match(text, '^%a*')
if how == 'released' or (how == 'moved' or how == 'repeated') and not string.find(text, ' perhaps$') then return 0 end
needs('SET')
redis.call('DEL', KEYS[1]) -- first, for Redis allows it at maxmemory (R13)
redis.call('SET', KEYS[1], 'broken', 'PX', ARGV[1])
redis.pcall('PUBLISH', ARGV[2], ARGV[3])
return 1
