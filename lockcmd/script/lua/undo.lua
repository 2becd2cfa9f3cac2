-- undo.lua takes back what one LOCK.ACQUIRE of a carrier did to a plain lock. If that one did
-- nothing, a late copy of it will do nothing.
-- KEYS
--   1 the lock
--   2 its FAIR queue; keys 2 to 4 not in a slot migration
--   3 the queue's timeouts
--   4 Leash's own waiters
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
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash')
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and -1 or h end
local r = parse(h[2])
if not h[1] or r[CARRIER] ~= ARGV[2] or r[TOKEN] == ARGV[7] then return -1 end
local last, req = tonumber(r[REQ]), tonumber(ARGV[3])
if last == req and h[1] == '1' then
  redis.call('DEL', KEYS[1])
  publish(ARGV[5], ARGV[6])
  if KEYS[2] then wakeHead(2, ARGV[5], ARGV[6]) end
  return 1
end
if last > req then return -1 end
r[REQ], r[REPLY] = ARGV[4], '0'
if last == req then
  -- A repetition under that ID counts again (R7).
  r[ID] = '-'
  takeBack(r)
  return 0
end
needs('HSET')
passMemoryLimit(KEYS[1])
redis.call('HSET', KEYS[1], 'leash', record(r))
return -1
