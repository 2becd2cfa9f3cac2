-- extend.lua sets how long a lease still lasts, for LOCK.EXTEND. That may be less than remains.
-- KEYS
--   1 the lock
--   with READ and WRITE only: its records
--   the carrier's tombstone; not in a slot migration
-- ARGV
--   1 owner
--   2 the record as it was read
--   3 the new record; its ext names the LOCK.EXTEND that made it
--   4 ms that the lease lasts from now
--   5 the carrier's channel, "" when the carrier needs no hold event
--   6 the hold event
--   7 how long the tombstone outlives the lease, ms
-- Replies
--   the ms left; the same when this request was done before
--   -1: no such hold, or its record has changed, or its tombstone says broken or lost
-- Atomic: a hold that was acquired again, moved or extended since it was read must not get this
-- time. The tombstone tells a carrier that missed the hold event how to judge a lease it does not
-- find.
-- Rules: R7, R12, R14, R30. No other script shortens a lease.
local key, leash, field, ms, tombstone = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX, tonumber(ARGV[4]), KEYS[AFTER]
local n, r, err = readHold(key, leash, field)
if err then return err end
local left, made = n > 0 and holdLeft(key, leash, field, n) or 0, parse(ARGV[3])
if left > 0 and r[EXT] == made[EXT] then return left end
local text = tombstone and redis.pcall('GET', tombstone)
local over = type(text) == 'string' and (text == 'broken' or string.find(text, '^lost '))
if left == 0 or over or record(r) ~= ARGV[2] then return -1 end
needs('HSET', 'DEL', 'SET')
setEnd(key, leash, field, n, made, ms)
if tombstone then
  redis.call('DEL', tombstone)
  if ARGV[5] ~= '' then redis.call('SET', tombstone, 'extended ' .. ARGV[7], 'PX', wholeText(ms + ARGV[7])) end
end
if ARGV[5] ~= '' then redis.pcall('PUBLISH', ARGV[5], ARGV[6]) end
return ms
