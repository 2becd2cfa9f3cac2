-- tombstone.lua writes a tombstone that says how a hold ended (lockcmd/event/tombstone.go).
-- KEYS
--   1 the tombstone
-- ARGV
--   1 its text
--   2 how long it lives, ms
--   3 channel on which to tell waiters about it; 3 and 4 may be left out
--   4 ways to publish
-- Replies
--   1: it has this text now
--   0: another tombstone is there that says more
-- Atomic: a tombstone that another request writes at the same time must stay. These are replaced:
-- - extended, because it does not say how the hold ended.
-- - broken, when the carrier says how the hold ended (released or lost).
-- Rules: R13, R30.
local text = redis.pcall('GET', KEYS[1])
if text == ARGV[1] then return 1 end
local ends = ARGV[1] == 'released' or string.find(ARGV[1], '^lost ')
if type(text) == 'string' and not (string.find(text, '^extended ') or text == 'broken' and ends) then return 0 end
needs('SET')
-- DEL comes first, because Redis allows it at maxmemory (R13).
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if ARGV[3] then publish(ARGV[3], ARGV[4]) end
return 1
