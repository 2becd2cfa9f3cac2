-- rw_grant.lua stands between rw.lua and rw_acquire.lua, whose KEYS and ARGV it reads: what a grant writes.

-- enter counts one more acquire of a hold that has n and lasts for mine ms yet.
local function enter(key, leash, field, n, r, mine)
  local ttl = tonumber(ARGV[5])
  if renewed(ARGV[6]) then
    r[TTL] = renewed(r[OPTS]) and math.max(tonumber(r[TTL]), ttl) or ttl
    r[OPTS] = 'w' .. string.sub(r[OPTS], 2)
  elseif not renewed(r[OPTS]) then r[TTL] = math.max(tonumber(r[TTL]), age(r) + ttl) end
  r[REQ], r[REPLY], r[ID], r[TTL] = ARGV[3], r[TOKEN], ARGV[8], string.format('%.0f', r[TTL])
  if MINE == 'read' then redis.call('SET', timeout(leash, field, n + 1), '1', 'PX', ttl) end -- first: a slot that migrates may refuse it
  redis.call('HSET', leash, field, record(r))
  redis.call('HINCRBY', key, field, 1)
  raise(key, redis.call('PTTL', key), ttl)
  raise(leash, redis.call('PTTL', leash), ttl)
  return {1, tonumber(r[TOKEN]), math.max(mine, ttl)}
end

-- admit makes a new hold, where one with n counts may have been left by the dead. In a fresh lock it is the first one.
local function admit(key, leash, field, n, fresh)
  local token, text, since = mint(KEYS[3], ARGV[7])
  if not token then return text end
  if MINE == 'read' then
    redis.call('SET', timeout(leash, field, 1), '1', 'PX', ARGV[5])
    for i = 2, math.min(n, 10000) do redis.pcall('DEL', timeout(leash, field, i)) end
  end
  if fresh then redis.call('DEL', leash) end
  if fresh then redis.call('HSET', key, 'mode', MINE) end
  redis.call('HSET', key, field, '1')
  redis.call('HSET', leash, field, record({text, ARGV[2], ARGV[3], text, since, ARGV[5], ARGV[6], ARGV[10], ARGV[8], ARGV[9]}))
  for _, k in ipairs({key, leash}) do raise(k, redis.call('PTTL', k), tonumber(ARGV[5])) end
  return {1, token, tonumber(ARGV[5])}
end
