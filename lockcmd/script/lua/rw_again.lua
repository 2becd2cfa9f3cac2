-- rw_again.lua follows again.lua and rw_grant.lua in rw_acquire.lua.

-- countAcquire counts one more acquire of a hold that has n counts and lasts for mine ms. It uses
-- the ARGV of rw_acquire.lua.
local function countAcquire(key, leash, field, n, r, mine)
  local ttl = tonumber(ARGV[5])
  if not renewed(ARGV[6]) and not renewed(r[OPTS]) then r[TTL] = math.max(tonumber(r[TTL]), age(r) + ttl) end
  noteAgain(r)
  if MINE == 'write' and renewed(r[OPTS]) then extendUntil(r, math.max(mine, ttl)) end
  needsForGrant()
  if MINE == 'read' then
    -- This comes first, because Redis may refuse it in a slot that migrates.
    local name = timeoutKey(leash, field, n + 1)
    redis.call('SET', name, timeoutValue(name, 0), 'PX', ttl)
  end
  redis.call('HSET', leash, field, record(r))
  redis.call('HINCRBY', key, field, 1)
  raiseTTL(key, redis.call('PTTL', key), ttl)
  raiseTTL(leash, redis.call('PTTL', leash), ttl)
  return {1, tonumber(r[TOKEN]), math.max(mine, ttl)}
end
