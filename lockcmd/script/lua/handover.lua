-- handover.lua ends a hold of a plain lock and grants the lock to a waiter of the same Leash. A
-- FAIR waiter that comes first in the FAIR queue gets a wake-up instead.
-- KEYS
--   1 the lock
--   2 its token counter
--   3 the turns of the Leashes that wait; keys 3 to 6 not in a slot migration
--   4 its FAIR queue
--   5 the queue's timeouts
--   6 Leash's own waiters
-- ARGV
--   1 owner
--   2 token
--   3 carrier
--   4 request number
--   5 as in release.lua
--   6 the waiter's owner
--   7 the waiter's carrier
--   8 the waiter's request number
--   9 TTL ms
--   10 options
--   11 how long the token counter lives, ms; 0 without end
--   12 ID as "=id", or "-"
--   13 client
--   14 ext
--   15 id of the master that may grant, "-" for none, "" for any
--   16 channel of the lock's releases
--   17 ways to publish
--   18 the waiter's mode, read or write; not used here, only in rw_handover.lua
--   19 this Leash in the list of turns
--   20 "" while its turn lasts. Otherwise the turn ends if another Leash comes first
--   21 the event for the Leash whose turn it is
-- Replies
--   {1, token, ms left, others}: ended and granted, and how many other Leashes wait
--   {1, token, ms left}: this request was done before
--   {1}: ended, not granted; waiters got a wake-up. The turn is over, or a FAIR waiter comes first,
--      or no token can be counted, or this master may not grant
--   {0}: counts remain
--   {-1}: no such hold, nothing granted
--   {-2}: a late copy, nothing done
-- Atomic: nobody may take the lock between the end of one hold and the next. HDEL comes first, so
-- the release and the grant work at the memory limit. DEL would not do: in a slot migration, Redis
-- would refuse the HSET of a deleted key half way.
-- Rules: R7, R13, R14, R21, R22.
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash', ARGV[6])
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and {-1} or h end
local r = parse(h[2])
if h[3] and r[CARRIER] == ARGV[7] and r[REQ] == ARGV[8] then
  return {1, tonumber(r[REPLY]), redis.call('PTTL', KEYS[1])}
end
if not h[1] or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return {-1} end
local said, takes = replyUnlessEnds(r, tonumber(h[1]))
if takes then decrement(KEYS[1], nil, ARGV[1], nil, r) end
if said then return {said} end
local q = KEYS[4] and redis.call('EXISTS', KEYS[4]) == 1 and fairQueue(4)
local first = q and q.head(0)
needs('GET', 'TIME', 'SET', 'DEL', 'HSET', 'PEXPIRE')
local turn = readTurn(KEYS[3], ARGV[19], ARGV[20] ~= '')
if turn.over or first and first ~= ARGV[6] or not canMint(KEYS[2]) or notGranting(ARGV[15]) then
  redis.call('DEL', KEYS[1])
  if first and first ~= ARGV[6] then putFairFirst(KEYS[3]) end
  callNext(KEYS[3], ARGV[19], true, ARGV[21], ARGV[16], ARGV[17])
  if first then publish(ARGV[16] .. ':' .. first, ARGV[17]) end
  return {1}
end
if q then needsForQueue() end
redis.call('HDEL', KEYS[1], ARGV[1])
local made = grant(KEYS[1], KEYS[2], {ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]})
if first and made[1] == 1 then q.granted(first, ARGV[10], ARGV[16], ARGV[17]) end
if made[1] == 1 then made[4] = takeTurn(KEYS[3], turn) end
return made
