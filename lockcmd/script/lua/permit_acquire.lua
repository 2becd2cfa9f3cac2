-- permit_acquire.lua takes permits of a semaphore for a carrier, all or none. SEM.ACQUIRE calls it.
-- Permits that the carrier has already stay with it, so a request can be repeated.
-- KEYS
--   1 the semaphore
--   2 its zset
--   3 Leash's records
--   4 the turns of the Leashes that wait
-- ARGV
--   1 carrier
--   2 request number
--   3 TTL ms
--   4 options
--   5 ID as "=id", or "-"
--   6 client
--   7 channel
--   8 ways to publish
--   9 id of the master that may grant, "-" for none, "" for any
--   10 this Leash in the list of turns
--   11 "" if the command does not wait
--   12 who waits on this Leash behind it: "1" somebody whom its turn lasts for, "0" others, ""
--      nobody
--   13 the event for the Leash whose turn it is
--   14... for each permit: its 32 hex digits, and the token of this hold of it
-- Replies
--   {1, available, then for each permit: token, ms left}: granted
--   {0, ms}: too few are available; ms until the first lease ends, at most 60000, -1 for none.
--      Or it is another Leash's turn, and they are reserved for it for so long
--   {2, permit, token, carrier}: another carrier has this permit
--   {6, replication id}: enough are available, but this master may not grant them
-- Atomic: otherwise two callers could take the last permit. DECRBY is the first write of the grant.
-- At the memory limit, Redis refuses it before anything is taken.
-- Rules: R7, R13, R21, R23.
local bad = wrongType()
if bad then return bad end
local now, ttl, missing, out = nowMillis(), tonumber(ARGV[3]), {}, {1, 0}
reapExpired(now, ARGV[7], ARGV[8])
for i = 14, #ARGV, 2 do
  local ends, r = redis.call('ZSCORE', KEYS[2], bytes(ARGV[i])), parse(redis.call('HGET', KEYS[3], ARGV[i]))
  if ends and r[CARRIER] ~= ARGV[1] then return {2, ARGV[i], r[TOKEN] or '', r[CARRIER] or ''} end
  if not ends then missing[#missing + 1] = i end
  out[i - 11] = ends and tonumber(r[TOKEN]) or tonumber(ARGV[i + 1])
  out[i - 10] = ends and math.max(tonumber(ends) - now, 0) or ttl
end
local have = readInteger(KEYS[1])
if have < #missing then
  if ARGV[11] ~= '' then awaitTurn(KEYS[4], ARGV[10]) end
  local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
  return {0, first and math.min(tonumber(first) - now, 60000) or -1}
end
out[2] = have - #missing
if #missing == 0 then return out end
local blocked = notGranting(ARGV[9])
if blocked then return {6, blocked} end
needs('ZADD', 'HSET', 'PTTL', 'PEXPIRE', 'GET', 'SET', 'DEL')
local wait, list = mayTakeTurn(KEYS[4], redis.call('GET', KEYS[4]), ARGV[10], ARGV[11] ~= '', ARGV[13])
if wait then return {0, wait} end
redis.call('DECRBY', KEYS[1], #missing)
for _, i in ipairs(missing) do takePermit(ARGV[i], ARGV[i + 1], now, {unpack(ARGV, 1, 6)}) end
extendRecords(ttl)
if list then continueTurn(KEYS[4], list, ARGV[10], ARGV[12], out[2], ARGV[13]) end
return out
