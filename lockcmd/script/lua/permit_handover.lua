-- permit_handover.lua gives a permit back in the name of its carrier and takes permits for a waiter
-- of the same Leash, all or none.
-- KEYS
--   1 the semaphore
--   2 its zset
--   3 Leash's records
--   4 the turns of the Leashes that wait; not in a slot migration
-- ARGV
--   1 permit
--   2 token
--   3 carrier
--   4 the waiter's carrier
--   5 the waiter's request number
--   6 TTL ms
--   7 options
--   8 ID as "=id", or "-"
--   9 client
--   10 channel
--   11 ways to publish
--   12 id of the master that may grant, "-" for none, "" for any
--   13 this Leash in the list of turns
--   14 who waits on this Leash behind the waiter, as in permit_acquire.lua
--   15 the event for the Leash whose turn it is
--   16... for each permit of the waiter: its 32 hex digits, and the token of this hold of it
-- Replies
--   {1, others, available, then for each permit: token, ms left}: given back and granted, and how
--      many other Leashes wait. Or this request was done before
--   {1}: given back, not granted; waiters got a wake-up. It is another Leash's turn, or too few are
--      available, or the waiter has one of the permits, or this master may not grant
--   {-1}: not held, or its lease had ended; nothing granted
-- Atomic: nobody may take the permit in between. The new permit is written before the old one is
-- deleted. In a slot migration, Redis would refuse to write a key that was deleted as empty.
-- Rules: R7, R11, R13, R14, R21, R23.
local bad = wrongType()
if bad then return string.find(bad.err, 'WRONGTYPE', 1, true) and {-1} or bad end
local now, ttl, some, done, out = nowMillis(), tonumber(ARGV[6]), false, true, {1, 0, 0}
reapExpired(now, ARGV[10], ARGV[11])
for i = 16, #ARGV, 2 do
  local ends, w = redis.call('ZSCORE', KEYS[2], bytes(ARGV[i])), parse(redis.call('HGET', KEYS[3], ARGV[i]))
  some, done = some or ends, done and ends and w[CARRIER] == ARGV[4] and w[REQ] == ARGV[5]
  out[i - 12] = ends and tonumber(w[TOKEN]) or tonumber(ARGV[i + 1])
  out[i - 11] = ends and math.max(tonumber(ends) - now, 0) or ttl
end
local r = parse(redis.call('HGET', KEYS[3], ARGV[1]))
if r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return done and out or {-1} end
local n, text = (#ARGV - 15) / 2, KEYS[4] and redis.call('GET', KEYS[4])
local _, list = readTurns(text)
local others = #list > 0 and placeOf(list, ARGV[13]) ~= 1
local left = readInteger(KEYS[1]) + 1 - n
if others or left < 0 or some or not redis.call('ZSCORE', KEYS[2], bytes(ARGV[1])) or notGranting(ARGV[12]) then
  local turns = KEYS[4] and {key = KEYS[4], leash = ARGV[13], waits = true, event = ARGV[15]}
  return {freePermit(ARGV[1], ARGV[10], ARGV[11], turns)}
end
needs('INCRBY', 'ZADD', 'HSET', 'ZREM', 'HDEL', 'PTTL', 'PEXPIRE', 'SET', 'DEL')
passMemoryLimit(KEYS[2])
redis.call('INCRBY', KEYS[1], wholeText(1 - n))
for i = 16, #ARGV, 2 do takePermit(ARGV[i], ARGV[i + 1], now, {unpack(ARGV, 4, 9)}) end
redis.call('ZREM', KEYS[2], bytes(ARGV[1]))
redis.call('HDEL', KEYS[3], ARGV[1])
extendRecords(ttl)
table.remove(list, 1)
out[2], out[3] = #list, left
if text or KEYS[4] and ARGV[14] ~= '' then continueTurn(KEYS[4], list, ARGV[13], ARGV[14], left, ARGV[15]) end
return out
