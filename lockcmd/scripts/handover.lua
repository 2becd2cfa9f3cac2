-- handover.lua ends a hold and grants the lock to a waiter of the same Leash (R21), unless a FAIR waiter stands before it.
-- KEYS 1 the lock · 2 its token counter · 3 its queue · 4 the queue's timeouts · 5 our waiters; only the first two in a slot that migrates (R14)
-- ARGV 1 owner · 2 token · 3 carrier · 4 request number · 5 as release.lua's
--      6 the waiter's owner · 7 carrier · 8 request number · 9 TTL ms · 10 options · 11 token TTL ms · 12 ID · 13 client · 14 more · 15 the master that may grant
--      16 channel · 17 ways to publish
-- Replies {1, token, ms left} ended and granted, also when this very request was done before · {0} counts remain
--      {1} ended, and those who wait were told: a FAIR waiter stands before it, no token can be counted, or this
--          master may not grant
--      {-1} no such hold, nothing granted · {-2} a late copy, nothing done
-- Atomic: nobody may get in between the end of one hold and the next. HDEL comes first, so at maxmemory the release passes and
-- the grant with it (R13). Not DEL: in a slot that migrates, Redis would refuse the HSET of a key that is gone, half way.
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash', ARGV[6])
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and {-1} or h end
local r, req = parse(h[2]), tonumber(ARGV[4])
if h[3] and r[CARRIER] == ARGV[7] and r[REQ] == ARGV[8] then
  return {1, tonumber(r[REPLY]), redis.call('PTTL', KEYS[1])}
end
if not h[1] or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return {-1} end
if tonumber(r[REQ]) == req then return {tonumber(r[REPLY])} end
if tonumber(r[REQ]) > req then return {-2} end
if tonumber(h[1]) > 1 and ARGV[5] ~= 'all' then
  needs('HINCRBY', 'HSET')
  local left = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], left > 0 and left or r[TTL])
  redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
  r[REQ], r[REPLY], r[ID] = ARGV[4], '0', r[ID] ~= ARGV[5] and r[ID] or '-'
  redis.call('HSET', KEYS[1], 'leash', record(r))
  return {0}
end
local q = KEYS[3] and redis.call('EXISTS', KEYS[3]) == 1 and fairQueue(3)
local first = q and q.head(0)
if first and first ~= ARGV[6] or not canMint(KEYS[2]) or notGranting(ARGV[15]) then
  redis.call('DEL', KEYS[1])
  publish(ARGV[16], ARGV[17])
  if first then publish(ARGV[16] .. ':' .. first, ARGV[17]) end
  return {1}
end
needs('TIME', 'SET', 'HSET', 'PEXPIRE')
if q then needsForQueue() end
redis.call('HDEL', KEYS[1], ARGV[1])
local made = grant(KEYS[1], KEYS[2], {ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]})
if first and made[1] == 1 then q.granted(first, ARGV[10], ARGV[16], ARGV[17]) end
return made
