-- extend_report.lua follows the prelude in extend.lua and rw_extend.lua. It uses their ARGV. at is
-- the index in KEYS of the carrier's tombstone. In a slot migration KEYS has none.

-- isBeingLost reports whether the holder is being told of a loss, or has been told.
local function isBeingLost(at)
  local text = KEYS[at] and redis.pcall('GET', KEYS[at])
  return type(text) == 'string' and (text == 'broken' or string.find(text, '^lost '))
end

-- reportExtension tells the carrier that the lease now lasts ms, by its tombstone and by the hold
-- event. It returns the script's reply.
local function reportExtension(at, ms)
  if KEYS[at] then
    redis.call('DEL', KEYS[at])
    if ARGV[5] ~= '' then redis.call('SET', KEYS[at], 'extended ' .. ARGV[7], 'PX', wholeText(ms + ARGV[7])) end
  end
  if ARGV[5] ~= '' then redis.pcall('PUBLISH', ARGV[5], ARGV[6]) end
  return ms
end
