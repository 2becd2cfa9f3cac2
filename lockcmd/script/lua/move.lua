-- move.lua gives a hold of a plain lock another carrier. LOCK.ATTACH calls it, and so does a
-- repeated LOCK.ACQUIRE with the hold's last ID.
-- KEYS
--   1 the lock
--   2 the old carrier's tombstone
--   3 the new carrier's tombstone
-- ARGV
--   1 owner
--   2 token
--   3 old carrier
--   4 the last request number in the record, "" for any
--   5 the hold's ID as "=id", "" for any
--   6 new carrier
--   7 its request number
--   8 client
--   9 text of the old carrier's tombstone
--   10 how long the tombstone lives at least, ms; it lives as long as the hold
--   11 the old carrier's channel, "" when it needs no hold event
--   12 the hold event
-- Replies
--   {1, token, ms left, count, the hold's age in ms, its record}: it has the new carrier
--   {-1}: no such hold, or it has changed
-- Atomic: a hold has one carrier. The old one's requests must fail as soon as the new one's
-- succeed.
-- Rules: R4, R7, R11, R30.
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash')
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and {-1} or h end
local left, r = redis.call('PTTL', KEYS[1]), parse(h[2])
if not h[1] or r[TOKEN] ~= ARGV[2] or (ARGV[5] ~= '' and r[ID] ~= ARGV[5]) then return {-1} end
if r[CARRIER] == ARGV[6] then return {1, tonumber(r[TOKEN]), left, tonumber(h[1]), age(r), h[2]} end
if not isOfOldCarrier(r) then return {-1} end
needs('TIME', 'HSET', 'SET', 'DEL')
if renewed(r[OPTS]) then
  raiseTTL(KEYS[1], left, tonumber(r[TTL]))
  left = math.max(left, tonumber(r[TTL]))
end
local text = setCarrier(r)
redis.call('HSET', KEYS[1], 'leash', text)
reportMove(2, r)
return {1, tonumber(r[TOKEN]), left, tonumber(h[1]), age(r), text}
