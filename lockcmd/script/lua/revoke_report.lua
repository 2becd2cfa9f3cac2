-- revoke_report.lua follows the prelude in revoke.lua and rw_revoke.lua. It uses their ARGV. at is
-- the index in KEYS of the carrier's tombstone. The key that stores the reply follows it. In a slot
-- migration KEYS has neither.

-- readTombstone returns whether the holder is being told of a loss, and whether the holder has been
-- told. In the second case the rest of the hold still has to end. A BREAK that forces the end
-- ignores both.
local function readTombstone(at)
  if ARGV[11] == 'broken' then return false, false end
  local text = KEYS[at] and redis.pcall('GET', KEYS[at])
  return text == 'broken', type(text) == 'string' and string.find(text, '^lost ')
end

-- reportCount stores the reply that counts remain, and sends the hold event. It returns the reply.
local function reportCount(at)
  if KEYS[at + 1] then redis.call('SET', KEYS[at + 1], '0', 'PX', ARGV[7]) end
  if ARGV[8] ~= '' then redis.pcall('PUBLISH', ARGV[8], ARGV[10]) end
  return 0
end

-- reportEnd writes the tombstone, stores the reply that the hold is over, and sends the hold event.
-- It returns the reply.
local function reportEnd(at, lost)
  local says = ARGV[11] == 'broken' and 'broken forced' or not lost and ARGV[8] ~= '' and 'released'
  if KEYS[at] and says then redis.call('SET', KEYS[at], says, 'PX', ARGV[7]) end
  if KEYS[at + 1] and not lost then redis.call('SET', KEYS[at + 1], '1', 'PX', ARGV[7]) end
  if ARGV[8] ~= '' then redis.pcall('PUBLISH', ARGV[8], ARGV[9]) end
  return lost and -1 or 1
end
