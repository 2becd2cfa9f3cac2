-- move.lua hangs a hold on another carrier: by ATTACH, or by an ACQUIRE repeated with the hold's last ID from another connection (R4).
-- KEYS 1 the lock · 2 the old carrier's tombstone · 3 the new carrier's; only the first in a slot that migrates (R14): the caller sees to the others
-- ARGV 1 owner · 2 token · 3 old carrier · 4 its last request number, as the record has it, "" for any · 5 the hold's ID as "=id", "" for any
--      6 new carrier · 7 its request number · 8 client · 9 what the tombstone says, with the new carrier behind it · 10 how long it lives at least, ms; else as long as the hold
--      11 the old carrier's channel, "" when it need not be told · 12 what to say there
-- Replies {1, token, ms left, count, the hold's age in ms, its record} it hangs on the new carrier · {-1} no such hold, or not so any more
-- Atomic: a hold has one carrier; the old one's renewal and release must fail from the moment the new one's succeed (R11).
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash')
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and {-1} or h end
local left, r = redis.call('PTTL', KEYS[1]), parse(h[2])
if not h[1] or r[TOKEN] ~= ARGV[2] or (ARGV[5] ~= '' and r[ID] ~= ARGV[5]) then return {-1} end
if r[CARRIER] == ARGV[6] then return {1, tonumber(r[TOKEN]), left, tonumber(h[1]), age(r), h[2]} end
if r[CARRIER] ~= ARGV[3] or (ARGV[4] ~= '' and r[REQ] ~= ARGV[4]) then return {-1} end
needs('TIME', 'HSET', 'SET', 'DEL')
if renewed(r[OPTS]) then
  raiseTTL(KEYS[1], left, tonumber(r[TTL]))
  left = math.max(left, tonumber(r[TTL]))
end
local text = setCarrier(r, ARGV[6], ARGV[7], ARGV[8])
redis.call('HSET', KEYS[1], 'leash', text)
if KEYS[2] then
  redis.call('SET', KEYS[2], ARGV[9], 'PX', string.format('%.0f', math.max(tonumber(ARGV[10]), tonumber(r[TTL]))))
  redis.call('DEL', KEYS[3])
end
if ARGV[11] ~= '' then redis.pcall('PUBLISH', ARGV[11], ARGV[12]) end
return {1, tonumber(r[TOKEN]), left, tonumber(h[1]), age(r), text}
