-- rw_handover.lua ends a READ or WRITE hold. If that frees the lock, it grants the lock to a waiter
-- of the same Leash, in either mode.
-- KEYS
--   1 the lock
--   2 its records
--   3 its token counter
--   4 the turns of the Leashes that wait; not in a slot migration
-- ARGV
--   1... as in handover.lua
-- Replies
--   {1}: ended, not granted. The turn is over, or others hold the lock, or this master may not
--      grant it, or no token can be counted, or a slot migration refused a new key
--   the others are as in handover.lua
-- Atomic: nobody may take the lock between the end of one hold and the next. The first write is one
-- that Redis allows at the memory limit.
-- Rules: R7, R13, R14, R21.
local key, leash, field, theirs = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX, ARGV[6] .. (ARGV[18] == 'write' and ':write' or '')
local has, w = readHold(key, leash, theirs)
local n, r, err = readHold(key, leash, field)
if err then return err end
if n == 0 or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then
  local granted = has > 0 and w[CARRIER] == ARGV[7] and w[REQ] == ARGV[8]
  return granted and {1, tonumber(w[REPLY]), holdLeft(key, leash, theirs, has)} or {-1}
end
-- Otherwise nothing is done yet. The waiter may share the lock already, by an attempt of its own.
local said, takes = replyUnlessEnds(r, n)
if takes then decrement(key, leash, field, n, r) end
if said then return {said} end
local turn = readTurn(KEYS[4], ARGV[19], ARGV[20] ~= '')
local ends = turn.over or othersLeft(key, leash, field) > 0 or not canMint(KEYS[3]) or notGranting(ARGV[15])
local timeout = timeoutKey(leash, theirs, 1)
local value = ARGV[18] == 'read' and timeoutValue(timeout, has)
if not ends then
  needsForGrant()
  passMemoryLimit(key)
  local first = value and redis.pcall('SET', timeout, value, 'PX', ARGV[9])
  -- A slot that migrates accepts no new key here. Redis would refuse the grant half-way.
  ends = type(first) == 'table' and first.err
end
if ends then
  local turns = KEYS[4] and {key = KEYS[4], leash = ARGV[19], waits = true, event = ARGV[21]}
  endHold(key, leash, field, n, ARGV[16], ARGV[17], turns)
  return {1}
end
redis.call('HDEL', key, field)
if MINE == 'read' then dropTimeouts(leash, field, 1, n) end
local g = {ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14], timeoutValue = value or nil}
local made = newHold(key, leash, KEYS[3], ARGV[18], theirs, has, true, g)
-- Other readers share the lock with this one, unless Leashes wait for their turn.
if MINE == 'write' and ARGV[18] == 'read' then publish(ARGV[16], ARGV[17], turn.others > 0 and '0' .. WORD or WORD) end
if made[1] == 1 then made[4] = takeTurn(KEYS[4], turn) end
if made[1] == 1 and ARGV[18] == 'read' then tellNext(turn.list, ARGV[19], ARGV[21]) end
return made
