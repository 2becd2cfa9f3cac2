-- extend.lua sets how long a lease still lasts, for LOCK.EXTEND. That may be less than remains.
-- KEYS
--   1 the lock
--   2 the carrier's tombstone; not in a slot migration
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
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash')
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and -1 or h end
if h[1] and h[2] == ARGV[3] then return redis.call('PTTL', KEYS[1]) end
if not h[1] or h[2] ~= ARGV[2] then return -1 end
if isBeingLost(2) then return -1 end
needs('HSET', 'DEL', 'SET')
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('HSET', KEYS[1], 'leash', ARGV[3])
return reportExtension(2, tonumber(ARGV[4]))
