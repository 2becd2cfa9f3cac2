-- tombstone.lua leaves a tombstone that says how a hold has ended, or is about to; or takes it away again, for the hold goes on.
-- KEYS 1 the tombstone
-- ARGV 1 what it says · 2 how long it lives, ms; 0 to take it away · 3 channel of the lock's releases, if those who listen there are to look · 4 ways to publish
-- Replies 1 it says so, or no more · 0 one is there that says more
-- Atomic: one that somebody lays meanwhile must stay, but for that of an EXTEND, which does not say how the hold has ended, and of a move that is under way;
-- and that of a BREAK, when the carrier says how the hold has ended.
local text = redis.pcall('GET', KEYS[1])
local other = type(text) == 'string' and text ~= ARGV[1]
local ends = ARGV[1] == 'released' or string.find(ARGV[1], '^lost ')
local vague = other and (string.find(text, '^extended ') or string.find(text, ' perhaps$') or text == 'broken' and ends)
if other and (ARGV[2] == '0' or not vague) then return 0 end
if ARGV[2] ~= '0' and text == ARGV[1] then return 1 end
needs('SET')
redis.call('DEL', KEYS[1]) -- first, for Redis allows it at maxmemory (R13)
if ARGV[2] ~= '0' then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
if ARGV[3] then publish(ARGV[3], ARGV[4]) end
return 1
