-- renew.lua renews holds of one slot, or only looks at them (LEASE). At most 256 a call (R24).
-- KEYS the locks
-- ARGV 1 TTL ms, 0 to look only · then for each lock: its owner, and how its record begins ("L1 <token> <carrier> ")
-- Replies for each lock 1 it is ours, and renewed; when only looked at, 1 and the ms it still lasts, at least 1 · 0 it is not ours any more
--      -1 Redis could not say
-- Atomic: a key that became somebody else's must not get our TTL. Each lock has its own outcome: a key that somebody
-- overwrote with another type stops none of the others (R25). Redis 7 raises a TTL in one call; one before it does not know how, and a key
-- that lasts longer, or for ever, is looked at. Up to 100,000 locks a second are renewed here: names are looked up once, a number that goes
-- to Redis is text (Lua writes others with 17 digits), no string is cut, and the time is told at which a lock ends: of a TTL, Redis would write
-- that time into the command for its replicas anew for each lock, which took 1.1 of 8.7 µs. What that way does not raise is raised by its TTL,
-- if that is longer than what is left: Redis before 7.2 goes by the clock as it is now, and not when the script began.
local call, find, text, ttl, now, out = redis.pcall, string.find, ARGV[1], tonumber(ARGV[1]), redis.call('TIME'), {}
local ends = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + ttl)
for i, key in ipairs(KEYS) do
  local h = call('HMGET', key, ARGV[2 * i], 'leash')
  if h.err then
    out[i] = find(h.err, 'WRONGTYPE', 1, true) and 0 or -1
  elseif not h[1] or not h[2] or find(h[2], ARGV[2 * i + 1], 1, true) ~= 1 then
    out[i] = 0
  elseif ttl > 0 and call('PEXPIREAT', key, ends, 'GT') == 1 then
    out[i] = 1
  else
    local left = redis.call('PTTL', key)
    out[i] = (ttl > 0 or left < 0) and 1 or 1 + math.max(left, 1)
    if ttl > 0 and left < ttl then
      local set = call('PEXPIRE', key, text)
      if type(set) == 'table' and set.err then out[i] = -1 end
    end
  end
end
return out
