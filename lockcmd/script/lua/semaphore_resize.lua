-- semaphore_resize.lua changes the total of a semaphore, as Redisson's setPermits does. SEM.RESIZE
-- calls it. Permits that are held stay held, so the number of available ones may be negative. It
-- creates a missing semaphore.
-- KEYS
--   1 the semaphore
--   2 its zset
--   3 Leash's records
-- ARGV
--   1 the new total, available and held
--   2 channel
--   3 ways to publish
-- Replies
--   how many are available now
-- Atomic: no permit may come or go between the count and the change. Two calls have the effect of
-- one.
local bad = wrongType()
if bad then return bad end
reapExpired(nowMillis(), ARGV[2], ARGV[3])
local have = readInteger(KEYS[1])
local more = tonumber(ARGV[1]) - have - redis.call('ZCARD', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 0 then
  have = tonumber(ARGV[1])
  redis.call('SET', KEYS[1], ARGV[1])
elseif more == 0 then return have
else have = redis.call('INCRBY', KEYS[1], wholeText(more)) end
publish(ARGV[2], ARGV[3], ARGV[1])
return have
