-- shared_tombstone.lua writes a tombstone before a hold is released with one key a call. It removes
-- the tombstone when that has not ended the hold. Several releases may share it; it stays while one
-- needs it.
-- KEYS
--   1 the tombstone
-- ARGV
--   1 a word that no other release has
--   2 how long it lives at least, ms; 0 to remove the word
-- Replies
--   1: done
--   0: another tombstone is there that says more, or none with such words
-- Atomic: a word that another release adds at the same time must stay.
-- Rules: R13, R14.
local text = redis.pcall('GET', KEYS[1])
if type(text) ~= 'string' then text = '' end
local ours = string.sub(text, 1, 9) == 'released '
local vague = text == '' or text == 'left' or string.find(text, '^extended ')
if not ours and (ARGV[2] == '0' or not vague) then return 0 end
local words, left = {}, math.max(ours and redis.call('PTTL', KEYS[1]) or 0, tonumber(ARGV[2]))
for word in string.gmatch(ours and string.sub(text, 10) or '', '%S+') do
  if word ~= ARGV[1] then words[#words + 1] = word end
end
if ARGV[2] ~= '0' then words[#words + 1] = ARGV[1] end
needs('GET', 'SET')
-- DEL comes first, because Redis allows it at maxmemory (R13).
redis.call('DEL', KEYS[1])
if #words > 0 and left > 0 then redis.call('SET', KEYS[1], 'released ' .. table.concat(words, ' '), 'PX', string.format('%.0f', left)) end
return 1
