-- release.lua takes a count of a hold back, or ends it, in the name of its carrier.
-- KEYS
--   1 the lock
--   2 the turns of the Leashes that wait; keys 2 to 5 not in a slot migration
--   3 its FAIR queue
--   4 the queue's timeouts; keys 4 and 5 with FAIR only
--   5 Leash's own waiters
-- ARGV
--   1 owner
--   2 token
--   3 carrier
--   4 request number
--   5 "all" ends it whatever its count; "=id" or "-" forgets the acquire of that ID; "" neither
--   6 channel of the lock's releases
--   7 ways to publish
--   8 this Leash in the list of turns
--   9 "" if nobody waits for the lock here
--   10 the event for the Leash whose turn it is
-- Replies
--   1: ended
--   0: counts remain
--   -1: no such hold
--   -2: a late copy, nothing done
-- Atomic: between the check of token and carrier and the DEL, the lock could change hands. Its
-- first write is one that Redis allows at the memory limit.
-- Rules: R7, R11, R12, R13, R14, R21, R22.
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash')
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and -1 or h end
-- The first words of the record say all about the last release of a hold with one count.
local token, carrier, last = string.match(h[2] or '', '^L1 (%d+) (%S+) (%d+) ')
if not h[1] or token ~= ARGV[2] or carrier ~= ARGV[3] then return -1 end
if tonumber(last) >= tonumber(ARGV[4]) or h[1] ~= '1' and ARGV[5] ~= 'all' then
  local r = parse(h[2])
  local said, takes = replyUnlessEnds(r, tonumber(h[1]))
  if takes then takeBack(r) end
  if said then return said end
end
local waiting = KEYS[2] and redis.pcall('EXISTS', KEYS[2], KEYS[3]) or 0
if waiting ~= 0 then needs('GET', 'TIME', 'SET') end
redis.call('DEL', KEYS[1])
if waiting == 0 then
  publish(ARGV[6], ARGV[7])
  return 1
end
callNext(KEYS[2], ARGV[8], ARGV[9] ~= '', ARGV[10], ARGV[6], ARGV[7])
wakeHead(3, ARGV[6], ARGV[7])
return 1
