-- acquire.lua tries once to take a plain lock for an owner. LOCK.ACQUIRE calls it. With queue.lua
-- and fair_head.lua before it, it takes a FAIR lock. The part acquire_free.lua grants most plain
-- locks.
-- KEYS
--   1 the lock
--   2 its token counter
--   3 the turns of the Leashes that wait
--   4 its FAIR queue; keys 4 to 6 with FAIR only
--   5 the queue's timeouts
--   6 Leash's own waiters
-- ARGV
--   1 owner
--   2 carrier
--   3 request number
--   4 token of the hold that this carrier has for the owner, 0 for none
--   5 TTL ms
--   6 options; the first letter is w or l
--   7 how long the token counter lives, ms; 0 without end
--   8 ID as "=id", or "-"
--   9 client
--   10 ext, the name=value pairs of the record
--   11 id of the master that may grant, "-" for none, "" for any
--   12 this Leash in the list of turns; "fair/ms" with FAIR
--   13 "" if the command does not wait here
--   14 the event for the Leash whose turn it is
--   15 how long the waiter counts as alive, ms; "" without BLOCK; 15 to 17 with FAIR only
--   16 channel of the lock's releases
--   17 ways to publish
-- Replies
--   {1, token, ms left}: granted, or counted once more, or this request was granted before
--   {1, token, ms left, 1}: another request with the same ID was granted before
--   {0, PTTL, token}: taken; without the token when nobody knows it
--   {0, ms}: free, but reserved for another Leash for so long
--   {2, token, carrier, ID}: the owner's hold has another carrier
--   {3}: the hold that the carrier had is gone
--   {4}: a late copy, nothing done
--   {5}: the owner holds the lock in another mode (R9)
--   {6, replication id}: the lock is free, but this master may not grant it
--   {7}: the lock is free, but only some of the dead FAIR waiters were removed: ask again
-- Atomic: otherwise two owners could both see a free lock and both get it.
-- Rules: R4, R6, R7, R9, R11, R12, R13, R21, R22.
local owner, want = ARGV[1], ARGV[4]
local left = redis.call('PTTL', KEYS[1])
local h = left == -2 and {} or redis.pcall('HMGET', KEYS[1], owner, 'leash', 'mode', owner .. ':write')
if h.err then return h end
local r = parse(h[2])
local last, turns, reserved, list
if not h[1] then
  if want ~= '0' then return {3} end
  if h[4] then return {5} end
  -- The record of an owner whose field was deleted (R11).
  local orphan = h[2] and redis.call('HLEN', KEYS[1]) == 1
  local free = left == -2 or orphan
  local blocked = free and notGranting(ARGV[11])
  local more
  if KEYS[4] then
    needs('TIME', 'SET', 'HSET', 'PEXPIRE')
    needsForQueue()
    free, more = mayTake(fairQueue(4), free and not blocked, owner, left, ARGV[15], ARGV[16], ARGV[17])
  end
  if more then return {7} end
  if blocked then return {6, blocked} end
  if not free then
    if ARGV[13] ~= '' and not KEYS[4] then awaitTurn(KEYS[3], ARGV[12]) end
    return {0, left, tonumber(r[TOKEN])}
  end
  last, turns = unpack(redis.call('MGET', KEYS[2], KEYS[3]))
  if turns then needs('TIME', 'SET', 'DEL', 'HSET', 'PEXPIRE') end
  reserved, list = mayTakeTurn(KEYS[3], turns, ARGV[12], ARGV[13] ~= '', ARGV[14])
  if reserved then return {0, reserved} end
elseif h[3] then return {5}
else
  local said = replyWithoutCount(r, left) or want ~= '0' and countAcquire(r, left)
  if said then return said end
end
-- Otherwise the carrier tracks no hold. A late copy of a request made this one for nobody. It is
-- replaced.
local blocked = h[1] and notGranting(ARGV[11])
if blocked then return {6, blocked} end
local made = grant(KEYS[1], KEYS[2], {owner, ARGV[2], ARGV[3], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], last = last})
if list and made[1] == 1 then writeTurns(KEYS[3], 0, list) end
if KEYS[4] and made[1] == 1 then fairQueue(4).granted(owner, ARGV[6], ARGV[16], ARGV[17]) end
return made
