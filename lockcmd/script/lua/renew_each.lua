-- renew_each.lua follows the prelude in the scripts that renew holds of several keys.

-- renewEach renews or checks all holds and returns their replies. It calls renew with the number of
-- a hold and the two arguments about it. each is how many keys a hold has. If renew fails, only
-- that hold's reply says so: 0 for a key of another type, else -1. If Redis takes no writes now,
-- the error stands for all replies.
local function renewEach(each, renew)
  local out = {}
  for i = 1, #KEYS / each do
    local ok, said = pcall(renew, i, ARGV[2 * i], ARGV[2 * i + 1])
    if not ok then
      local text = type(said) == 'table' and said.err or tostring(said)
      local all = string.find(text, 'NOREPLICAS', 1, true) or string.find(text, 'MISCONF', 1, true)
      if all then return redis.error_reply('UNRENEWED ' .. string.sub(text, all)) end
      said = string.find(text, 'WRONGTYPE', 1, true) and 0 or -1
    end
    out[i] = said
  end
  return out
end
