-- move.lua hangs a hold on another carrier: an ACQUIRE repeated with the hold's last ID from another connection (R4).
-- KEYS 1 the lock · 2 the old carrier's tombstone · 3 the new carrier's
-- ARGV 1 owner · 2 token · 3 old carrier · 4 ID as "=id" · 5 new carrier · 6 its request number · 7 client
--      8 how long the tombstone lives at least, ms; else as long as the hold · 9 the old carrier's channel, "" when it need not be told · 10 what to say there
-- Replies {1, token, ms left, TTL, options, count} it hangs on the new carrier · {-1} no such hold
-- Atomic: a hold has one carrier; the old one's renewal and release must fail from the moment the new one's succeed (R11).
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash')
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and {-1} or h end
local left, r = redis.call('PTTL', KEYS[1]), parse(h[2])
if not h[1] or r[TOKEN] ~= ARGV[2] or r[ID] ~= ARGV[4] then return {-1} end
if r[CARRIER] == ARGV[5] then return {1, tonumber(r[TOKEN]), left, tonumber(r[TTL]), r[OPTS], tonumber(h[1])} end
if r[CARRIER] ~= ARGV[3] then return {-1} end
if r[OPTS] == 'w' then
  raise(KEYS[1], left, tonumber(r[TTL]))
  left = math.max(left, tonumber(r[TTL]))
end
r[CARRIER], r[REQ], r[REPLY], r[CLIENT] = ARGV[5], ARGV[6], r[TOKEN], ARGV[7]
redis.call('HSET', KEYS[1], 'leash', record(r))
redis.call('SET', KEYS[2], 'moved', 'PX', string.format('%.0f', math.max(tonumber(ARGV[8]), tonumber(r[TTL]))))
redis.call('DEL', KEYS[3])
if ARGV[9] ~= '' then redis.pcall('PUBLISH', ARGV[9], ARGV[10]) end
return {1, tonumber(r[TOKEN]), left, tonumber(r[TTL]), r[OPTS], tonumber(h[1])}
