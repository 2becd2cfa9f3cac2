-- restore.lua puts holds back that a new master does not have, while it is in grace: nobody was granted anything there (grace.go).
-- KEYS for each hold: the lock, its token counter, its carrier's tombstone
-- ARGV 1 the master's replication id · 2 until when it is in grace, ms · 3 token TTL ms, 0 for none
--      then for each hold: its owner, its count, for how many ms it lasts, its record
-- Replies for each hold 2 it is there · 1 it is there again · 0 another one is there · its record, if it is there and hangs on another carrier
--      -1 nothing done: another master · -2 nothing done: it has a tombstone · -3 nothing done: the grace is over by this clock
-- Atomic: what is not there must not have come when this one is put there. A hold with a smaller token had ended before this one was granted,
-- only its end was forgotten. The counter rises with it, so that the next token is larger. DEL comes first, so it passes at the memory limit.
local out, late = {}, notGranting(ARGV[1]) and -1 or age({[SINCE] = ARGV[2]}) >= 0 and -3
for i = 1, late and 0 or #KEYS / 3 do
  local key, counter, owner, count, ms, text = KEYS[3 * i - 2], KEYS[3 * i - 1], unpack(ARGV, 4 * i, 4 * i + 3)
  local h, r = redis.pcall('HMGET', key, owner, 'leash', 'mode'), parse(text)
  ageFromZero(r)
  text = record(r)
  local there, other = redis.call('EXISTS', key) == 1, not h.err and parse(h[2]) or {}
  local older = h[2] and not h[3] and tonumber(other[TOKEN] or r[TOKEN]) < tonumber(r[TOKEN])
  out[i] = 0
  if redis.call('EXISTS', KEYS[3 * i]) == 1 then out[i] = -2
  elseif h[1] and other[TOKEN] == r[TOKEN] then
    out[i] = other[CARRIER] == r[CARRIER] and 2 or h[2]
    needs('HSET', 'PTTL', 'PEXPIRE')
    if out[i] == 2 and tonumber(other[REQ]) < tonumber(r[REQ]) then
      passMemoryLimit(key)
      redis.call('HSET', key, owner, count, 'leash', text)
      raiseTTL(key, redis.call('PTTL', key), tonumber(ms))
    end
  elseif not there or older then
    needs('HSET', 'PEXPIRE', 'SET')
    redis.call('DEL', key)
    redis.call('HSET', key, owner, count, 'leash', text)
    redis.call('PEXPIRE', key, ms)
    raiseCounter(counter, r[TOKEN], ARGV[3])
    out[i] = 1
  end
end
for i = 1, late and #KEYS / 3 or 0 do out[i] = late end
return out
