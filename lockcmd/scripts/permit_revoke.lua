-- permit_revoke.lua gives a permit back for somebody who is not its carrier: the permit itself proves that it may.
-- KEYS 1 the semaphore · 2 its zset · 3 our hash · 4 the carrier's tombstone, if it has a record
-- ARGV 1 permit · 2 token and 3 carrier as its record has them, "" when it has none, as Redisson's · 4 channel · 5 ways to publish
--      6 how long the tombstone lives, ms · 7 the carrier's channel, "" when it need not be told · 8 what to say there
-- Replies {1} given back · {-1} it is not held · {-2, token, carrier, TTL ms} so its record has it, and nothing is done
-- Atomic: as permit_release.lua; and its carrier must find why it is gone when it finds it gone.
local bad = wrongType()
if bad then return bad end
local r = parse(redis.call('HGET', KEYS[3], ARGV[1]))
if (r[TOKEN] or '') ~= ARGV[2] or (r[CARRIER] or '') ~= ARGV[3] then
  return {-2, r[TOKEN] or '', r[CARRIER] or '', tonumber(r[TTL] or 0)}
end
local done = freePermit(ARGV[1], ARGV[4], ARGV[5])
if done == 1 and ARGV[7] ~= '' then
  redis.call('SET', KEYS[4], 'released', 'PX', ARGV[6])
  redis.pcall('PUBLISH', ARGV[7], ARGV[8])
end
return {done}
