-- give.lua gives permits to a plain counter, that of Redisson's RSemaphore, which it makes if there is none.
-- KEYS 1 the counter
-- ARGV 1 how many · 2 channel · 3 ways to publish
-- Replies how many there are now
-- Atomic: what is told is what there is at that moment. Passes at the memory limit, as it must for those who wait (R13).
local have, bad = readInteger(KEYS[1])
if bad then return bad end
if ARGV[1] == '0' then return have end
passMemoryLimit(KEYS[1])
local now = redis.call('INCRBY', KEYS[1], ARGV[1])
if now > 0 then publish(ARGV[2], ARGV[3], string.format('%.0f', now)) end
return now
