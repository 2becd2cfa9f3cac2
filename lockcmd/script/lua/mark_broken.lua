-- mark_broken.lua tells a carrier that LOCK.BREAK is about to end its hold.
-- KEYS
--   1 the carrier's tombstone
-- ARGV
--   1 how long it lives, ms
--   2 the carrier's channel
--   3 the hold event
-- Replies
--   1: marked and told
--   0: the hold was released, or has another carrier
-- Atomic: a release or a move by the owner must not look like a loss.
-- Rules: R13, R30.
local text = redis.call('GET', KEYS[1]) or ''
local how = string.match(text, '^%a*')
if how == 'released' or how == 'moved' or how == 'repeated' then return 0 end
needs('SET')
-- DEL comes first, because Redis allows it at maxmemory (R13).
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], 'broken', 'PX', ARGV[1])
redis.pcall('PUBLISH', ARGV[2], ARGV[3])
return 1
