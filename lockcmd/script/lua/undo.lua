-- undo.lua takes back what one LOCK.ACQUIRE of a carrier did to a hold. If that one did nothing, a
-- late copy of it will do nothing.
-- KEYS
--   the keys of the hold, by its mode:
--     the lock; then its FAIR queue, the queue's timeouts and Leash's own waiters, but not in a
--     slot migration
--     READ, WRITE: the lock, its records
-- ARGV
--   1 owner
--   2 carrier
--   3 request number of the acquire
--   4 request number of the undo, a larger one
--   5 channel of the lock's releases
--   6 ways to publish
--   7 token of a hold that stays, known to be made by the acquire; 0 for none
-- Replies
--   1: the hold that it made is ended
--   0: the count that it took is given back
--   -1: it had done nothing
-- Atomic: as release.lua. The carrier's later requests stay as they are.
-- Rules: R7, R11, R14, R26.
local key, leash, field = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX
local n, r, err = readHold(key, leash, field)
if err then return err end
local last, req = tonumber(r[REQ]), tonumber(ARGV[3])
if n == 0 or r[CARRIER] ~= ARGV[2] or r[TOKEN] == ARGV[7] or last > req then return -1 end
if last == req and n == 1 then
  endHold(key, leash, field, n, ARGV[5], ARGV[6])
  return 1
end
r[REQ], r[REPLY] = ARGV[4], '0'
if last == req then
  -- A repetition under that ID counts again (R7).
  r[ID] = '-'
  decrement(key, leash, field, n, r)
  return 0
end
needs('HSET')
passMemoryLimit(key)
writeRecord(key, leash, field, r)
return -1
