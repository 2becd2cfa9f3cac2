-- rw_grant.lua follows rw.lua in rw_acquire.lua and rw_handover.lua. It writes a grant.

-- needsForGrant ends the script unless Leash's user may run every command of a grant.
local function needsForGrant() needs('GET', 'MGET', 'TIME', 'SET', 'DEL', 'HSET', 'HKEYS', 'HDEL', 'HINCRBY', 'PTTL', 'PEXPIRE') end

-- newHold makes a new hold in a field. mode is its mode. A dead hold may have left n counts there.
-- In a fresh lock it is the first hold, and any other field belongs to dead holds. g is as in grant
-- (prelude.lua).
local function newHold(key, leash, counter, mode, field, n, fresh, g)
  needsForGrant()
  if mode == 'read' then
    -- This comes first, because Redis may refuse it in a slot that migrates.
    local name = timeoutKey(leash, field, 1)
    redis.call('SET', name, g.timeoutValue or timeoutValue(name, n), 'PX', g[4])
  end
  local token, text, since = mintToken(counter, g[6], g.last)
  if not token then return text end
  if mode == 'read' then dropTimeouts(leash, field, 2, n) end
  if fresh then redis.call('HSET', key, 'mode', mode) end
  redis.call('HSET', key, field, '1')
  redis.call('HSET', leash, field, newRecord(text, since, g))
  for _, k in ipairs({key, leash}) do
    for _, other in ipairs(fresh and redis.call('HKEYS', k) or {}) do
      if other ~= 'mode' and other ~= field then redis.call('HDEL', k, other) end
    end
    if fresh then redis.call('PEXPIRE', k, g[4]) else raiseTTL(k, redis.call('PTTL', k), tonumber(g[4])) end
  end
  return {1, token, tonumber(g[4])}
end
