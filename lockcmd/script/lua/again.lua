-- again.lua follows the prelude in the scripts that acquire a lock. It uses the ARGV of
-- acquire.lua, and is about an owner that has the lock already.

-- replyWithoutCount returns the reply of a request that does not count once more a hold that lasts
-- for left ms. It returns nil for a request that may.
local function replyWithoutCount(r, left)
  if r[CARRIER] ~= ARGV[2] then return {2, r[TOKEN] or '', r[CARRIER] or '', r[ID] or '-'} end
  local last, req = tonumber(r[REQ]), tonumber(ARGV[3])
  if last == req then return {1, tonumber(r[REPLY]), left} end
  if last > req then return {4} end
  if r[TOKEN] == ARGV[4] and r[ID] ~= '-' and r[ID] == ARGV[8] then return {1, tonumber(r[TOKEN]), left, 1} end
end

-- noteAgain notes a request that counts once more in the record. A lease that is acquired again
-- keeps its end and all its options.
local function noteAgain(r)
  if renewed(ARGV[6]) then
    r[TTL] = renewed(r[OPTS]) and math.max(tonumber(r[TTL]), tonumber(ARGV[5])) or ARGV[5]
    r[OPTS] = 'w' .. string.sub(r[OPTS], 2)
  end
  r[REQ], r[REPLY], r[ID], r[TTL] = ARGV[3], r[TOKEN], ARGV[8], wholeText(tonumber(r[TTL]))
end
