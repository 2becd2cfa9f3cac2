-- permit_release.lua gives a permit back in the name of its carrier.
-- KEYS 1 the semaphore · 2 its zset · 3 our hash
-- ARGV 1 permit · 2 token · 3 carrier · 4 and 5 nothing, as other releases have something there · 6 channel · 7 ways to publish
-- Replies 1 given back · -1 it is not held
-- Atomic: the permit goes and the count rises in one step. One whose lease was over counts as not held, and is given back all the same,
-- as Redisson does. ZREM comes first, so it passes at the memory limit (R13).
local bad = wrongType()
if bad then return string.find(bad.err, 'WRONGTYPE', 1, true) and -1 or bad end
local r = parse(redis.call('HGET', KEYS[3], ARGV[1]))
if r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end
return freePermit(ARGV[1], ARGV[6], ARGV[7])
