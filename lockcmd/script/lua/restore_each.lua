-- restore_each.lua follows master.lua in the scripts that restore holds on a new master in its
-- grace period (lockcmd/failover).

-- raiseCounter raises a token counter to a token if it is behind. ttl is as in mintToken.
local function raiseCounter(counter, token, ttl)
  local last = redis.pcall('GET', counter)
  if type(last) == 'table' or (tonumber(last or 0) or 0) >= tonumber(token) then return end
  if ttl == '0' or (last and redis.call('PTTL', counter) == -1) then redis.call('SET', counter, token)
  else redis.call('SET', counter, token, 'PX', ttl) end
end

-- restoreEach restores all holds and returns their replies. It calls restore with the number of a
-- hold and with the owner, count, ms and record of that hold. each is how many keys a hold has. The
-- last of them is its carrier's tombstone; a hold that has one is over. The words that follow are
-- commands that restore needs, without which it would take every hold for a missing one.
local function restoreEach(each, restore, ...)
  local out, late = {}, notGranting(ARGV[1]) and -1 or age({[SINCE] = ARGV[2]}) >= 0 and -3
  if not late then needs(...) end
  for i = 1, #KEYS / each do
    out[i] = late or redis.call('EXISTS', KEYS[each * i]) == 1 and -2 or restore(i, unpack(ARGV, 4 * i, 4 * i + 3))
  end
  return out
end
