-- plain_again.lua follows again.lua in acquire.lua.

-- countAcquire counts one more acquire of a hold that lasts for left ms, and returns the reply.
local function countAcquire(r, left)
  if r[TOKEN] ~= ARGV[4] then return {3} end
  noteAgain(r)
  needs('HINCRBY', 'PEXPIRE')
  redis.call('HSET', KEYS[1], 'leash', record(r))
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  raiseTTL(KEYS[1], left, tonumber(ARGV[5]))
  return {1, tonumber(r[TOKEN]), math.max(left, tonumber(ARGV[5]))}
end
