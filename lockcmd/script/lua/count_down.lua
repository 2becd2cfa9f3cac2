-- count_down.lua counts a latch down, for LATCH.DOWN. At zero the key is deleted. A missing latch
-- stays at zero.
-- KEYS
--   1 the latch
-- ARGV
--   1 channel
--   2 ways to publish
-- Replies
--   the count that is left
-- Atomic: exactly one caller sees it reach zero. The message "0" tells all waiters.
-- Rules: R13. It works at the memory limit.
local have, bad = readInteger(KEYS[1])
if bad then return bad end
if have == 0 and redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
needs('DECR', 'DEL')
passMemoryLimit(KEYS[1])
local left = redis.call('DECR', KEYS[1])
if left > 0 then return left end
redis.call('DEL', KEYS[1])
if left == 0 then publish(ARGV[1], ARGV[2]) end
return 0
