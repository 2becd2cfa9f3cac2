-- give.lua gives permits to a plain counter, the one of Redisson's RSemaphore. SEM.GIVE calls it.
-- It creates the counter if there is none.
-- KEYS
--   1 the counter
-- ARGV
--   1 how many permits
--   2 channel
--   3 ways to publish
-- Replies
--   how many are available now
-- Atomic: the published number is the number at that moment.
-- Rules: R13. It works at the memory limit, because waiters depend on it.
local have, bad = readInteger(KEYS[1])
if bad then return bad end
if ARGV[1] == '0' then return have end
passMemoryLimit(KEYS[1])
local now = redis.call('INCRBY', KEYS[1], ARGV[1])
if now > 0 then publish(ARGV[2], ARGV[3], wholeText(now)) end
return now
