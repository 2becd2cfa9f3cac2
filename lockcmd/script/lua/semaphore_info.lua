-- semaphore_info.lua reads a semaphore and changes nothing. SEM.INFO calls it. A permit whose lease
-- has ended counts as available.
-- KEYS
--   1 the semaphore
--   2 its zset
--   3 Leash's records
-- ARGV
--   none
-- Replies
--   {how many are available, how many are held}
-- Atomic: both numbers belong to one moment.
-- Rules: R23.
local bad = wrongType()
if bad then return bad end
local over = redis.call('ZCOUNT', KEYS[2], 0, wholeText(nowMillis()))
return {readInteger(KEYS[1]) + over, redis.call('ZCARD', KEYS[2]) - over}
