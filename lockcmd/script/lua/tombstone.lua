-- tombstone.lua writes a tombstone that says how a hold ended, or that LOCK.BREAK is about to end
-- it (lockcmd/event/tombstone.go).
-- KEYS
--   1 the tombstone
-- ARGV
--   1 its text
--   2 how long it lives, ms
--   3 channel on which to tell about it; 3 to 5 may be left out
--   4 ways to publish
--   5 the message, "0" if left out
-- Replies
--   1: it has this text now
--   0: another tombstone is there that says more
-- Atomic: a tombstone that another request writes at the same time must stay. These are replaced:
-- - extended, because it does not say how the hold ended.
-- - broken, when the carrier says how the hold ended (released or lost).
-- Rules: R13, R30.
local text = redis.pcall('GET', KEYS[1])
local stays = type(text) == 'string' and text ~= ARGV[1] and not string.find(text, '^extended ')
local ends = ARGV[1] == 'released' or string.find(ARGV[1], '^lost ')
if stays and not (text == 'broken' and ends) then return 0 end
needs('SET')
-- DEL comes first, because Redis allows it at maxmemory (R13).
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if ARGV[3] then publish(ARGV[3], ARGV[4], ARGV[5]) end
return 1
