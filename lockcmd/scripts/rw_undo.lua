-- rw_undo.lua takes back what one acquire of a carrier did for a READ or WRITE hold, if it did it, and keeps a late copy from doing it (R26).
-- KEYS 1 the lock · 2 its records
-- ARGV 1 owner · 2 carrier · 3 the acquire's request number · 4 the undo's own, larger one · 5 channel · 6 ways to publish
--      7 the token of the hold that the acquire is known to have made, and that stays; 0 for none
-- Replies 1 the hold it made is ended · 0 a count it took is given back · -1 it had done nothing
-- Atomic: as rw_release.lua. The carrier's later requests are left alone.
local key, leash, field = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX
local n, r, _, err = readHold(key, leash, field)
if err then return err end
local last, req = tonumber(r[REQ]), tonumber(ARGV[3])
if n == 0 or r[CARRIER] ~= ARGV[2] or r[TOKEN] == ARGV[7] or last > req then return -1 end
if last == req and n == 1 then
  endHold(key, leash, field, n, ARGV[5], ARGV[6])
  return 1
end
r[REQ], r[REPLY] = ARGV[4], '0'
if last == req then
  r[ID] = '-' -- a repetition under that ID counts again (R7)
  decrement(key, leash, field, n, r)
  return 0
end
passMemoryLimit(leash)
redis.call('HSET', leash, field, record(r))
return -1
