-- rw_acquire.lua tries once to take a read-write lock for reading or writing. LOCK.ACQUIRE calls
-- it.
-- KEYS
--   1 the lock
--   2 its records
--   3 its token counter
--   4 the turns of the Leashes that wait
-- ARGV
--   1 to 14 are as in acquire.lua, but for 4 and 13
--   4 token of the hold that this carrier has for the owner in this mode, 0 for none
--   13 "" if the command does not wait; "0" if it begins to wait; "1" if it is the first that waits
--      on this Leash; "2" if this Leash also has its turn, which lasts for it; "3" if it does not
--      wait and its connection reads already
-- Replies
--   {0, ms left, token}: taken; the last token granted, left out when it is unknown
--   {5}: the owner holds the lock in another mode (R9), or asks for WRITE and would wait for its
--      own READ
--   the others are as in acquire.lua, without {7}
-- Atomic: as acquire.lua. Who else holds the lock is checked at the moment of the grant.
-- Rules: R4, R6, R7, R9, R12, R21.
local key, leash, owner, carrier, want = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[4]
local place, waits = ARGV[13], ARGV[13] ~= '' and ARGV[13] ~= '3'
local field, h = owner .. SUFFIX, redis.pcall('HMGET', key, 'mode', owner, owner .. ':write')
if h.err then return h end
local left, n, r = redis.call('PTTL', key), tonumber(h[MINE == 'read' and 2 or 3] or 0) or 0, parse(redis.call('HGET', leash, field))
-- A lock of another kind (R9).
if left ~= -2 and h[1] ~= 'read' and h[1] ~= 'write' then return h[2] and {5} or {0, left} end
local beside, fresh, mine = false, left == -2, n > 0 and holdLeft(key, leash, field, n) or 0
if mine > 0 then
  local said = replyWithoutCount(r, mine)
  if said then return said end
  if want == r[TOKEN] then return countAcquire(key, leash, field, n, r, mine) end
  -- Otherwise a late copy of a request made this hold for nobody. It is replaced.
end
if want ~= '0' then return {3} end
if mine == 0 and not fresh then
  local said
  said, fresh, beside = passOthers(key, leash, h, waits)
  if said then return said end
end
local blocked = notGranting(ARGV[11])
if blocked then return {6, blocked} end
local last, turns, wait, list = unpack(redis.call('MGET', KEYS[3], KEYS[4]))
if turns and not beside then
  needsForGrant()
  if fresh then wait, list = mayTakeTurn(KEYS[4], turns, ARGV[12], waits, ARGV[14])
  else wait, list = mayShare(KEYS[4], turns, ARGV[12], place, left) end
  if wait then return {0, wait, tonumber(last)} end
end
local made = newHold(key, leash, KEYS[3], MINE, field, n, fresh, {owner, carrier, ARGV[3], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], last = last})
if list and made[1] == 1 then writeTurns(KEYS[4], 0, list) end
if list and made[1] == 1 and MINE == 'read' then tellNext(list, ARGV[12], ARGV[14]) end
return made
