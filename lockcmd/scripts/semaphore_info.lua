-- semaphore_info.lua shows a semaphore, and changes nothing. Permits whose lease is over count as available: whoever looks next takes them.
-- KEYS 1 the semaphore · 2 its zset · 3 our hash
-- Replies {how many are available, how many are out}
-- Atomic: both of one moment.
local bad = wrongType()
if bad then return bad end
local over = redis.call('ZCOUNT', KEYS[2], 0, wholeText(nowMillis()))
return {readInteger(KEYS[1]) + over, redis.call('ZCARD', KEYS[2]) - over}
