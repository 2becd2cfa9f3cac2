-- extend.lua sets for how long a lease still lasts, which may be less than remains (R12: no other script lowers it).
-- KEYS 1 the lock · 2 its carrier's tombstone, left out in a slot that migrates (R14)
-- ARGV 1 owner · 2 its record, as read · 3 the record to be · 4 ms · 5 the carrier's channel, "" when it need not be told · 6 what to say there
--      7 how long the tombstone outlives the lease, ms
-- Replies the ms left, also when this very request was done before · -1 no such hold, its record is another one by now, or it is being broken
-- Atomic: a lease that was entered again, moved or extended since it was read must not get a time that is too old for it. The tombstone tells a
-- carrier which has not heard of it, and does not find its lease any more, whether it has run out or was lost.
local h = redis.pcall('HMGET', KEYS[1], ARGV[1], 'leash')
if h.err then return string.find(h.err, 'WRONGTYPE', 1, true) and -1 or h end
if h[1] and h[2] == ARGV[3] then return redis.call('PTTL', KEYS[1]) end
if not h[1] or h[2] ~= ARGV[2] then return -1 end
local stone = KEYS[2] and redis.pcall('GET', KEYS[2])
if type(stone) == 'string' and (stone == 'broken' or string.find(stone, '^lost ')) then return -1 end -- it is about to be told
needs('HSET', 'DEL', 'SET')
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('HSET', KEYS[1], 'leash', ARGV[3])
if KEYS[2] then
  redis.call('DEL', KEYS[2])
  if ARGV[5] ~= '' then redis.call('SET', KEYS[2], 'extended ' .. ARGV[7], 'PX', string.format('%.0f', ARGV[4] + ARGV[7])) end
end
if ARGV[5] ~= '' then redis.pcall('PUBLISH', ARGV[5], ARGV[6]) end
return tonumber(ARGV[4])
