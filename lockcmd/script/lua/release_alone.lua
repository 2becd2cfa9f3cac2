-- release_alone.lua follows the prelude in release.lua. It ends a hold when nobody waits for the
-- lock. It comes before the parts for all other cases, so that the usual release does not pay for
-- making their functions. h is for release.lua: the owner's count and the record.
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash')
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and -1 or h end
local token, carrier, last = string.match(h[2] or '', '^L1 (%d+) (%S+) (%d+) ')
if not h[1] or token ~= ARGV[2] or carrier ~= ARGV[3] then return -1 end
local ends = (h[1] == '1' or ARGV[5] == 'all') and tonumber(last) < tonumber(ARGV[4])
if ends and (not KEYS[2] or redis.pcall('EXISTS', KEYS[2], KEYS[3]) == 0) then
  redis.call('DEL', KEYS[1])
  publish(ARGV[6], ARGV[7])
  return 1
end
