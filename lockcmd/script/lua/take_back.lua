-- take_back.lua follows the prelude in the scripts that take back a count of a plain lock.

-- takeBack takes one of the owner's counts back and writes the hold's record. The first write is
-- one that Redis allows at the memory limit (R13).
local function takeBack(r)
  needs('HINCRBY', 'HSET')
  local left = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], left > 0 and left or r[TTL])
  redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
  redis.call('HSET', KEYS[1], 'leash', record(r))
end
