-- permit_move.lua gives a permit another carrier. A SEM.ACQUIRE that is repeated with its ID from
-- another connection calls it.
-- KEYS
--   1 the semaphore
--   2 its zset
--   3 Leash's records
--   4 the old carrier's tombstone
--   5 the new carrier's tombstone
-- ARGV
--   1 permit
--   2... as in move.lua
-- Replies
--   {1, token, ms left, 1, the hold's age in ms, its record}: it has the new carrier
--   {-1}: it is not held, or it has changed
-- Atomic: as move.lua.
-- Rules: R7, R11, R23.
local bad = wrongType()
if bad then return bad end
local now, ends, text = nowMillis(), redis.call('ZSCORE', KEYS[2], bytes(ARGV[1])), redis.call('HGET', KEYS[3], ARGV[1])
local r = parse(text)
if not ends or tonumber(ends) <= now or r[TOKEN] ~= ARGV[2] or (ARGV[5] ~= '' and r[ID] ~= ARGV[5]) then return {-1} end
local left = tonumber(ends) - now
if r[CARRIER] == ARGV[6] then return {1, tonumber(r[TOKEN]), left, 1, age(r), text} end
if not isOfOldCarrier(r) then return {-1} end
local ttl = tonumber(r[TTL])
needs('TIME', 'ZADD', 'HSET', 'SET', 'DEL', 'PTTL', 'PEXPIRE')
if renewed(r[OPTS]) and left < ttl then
  left = ttl
  redis.call('ZADD', KEYS[2], wholeText(now + ttl), bytes(ARGV[1]))
  extendRecords(ttl)
end
text = setCarrier(r)
redis.call('HSET', KEYS[3], ARGV[1], text)
reportMove(4, r)
return {1, tonumber(r[TOKEN]), left, 1, age(r), text}
