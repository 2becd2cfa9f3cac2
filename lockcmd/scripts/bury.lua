-- bury.lua lays a carrier's tombstone before its hold is released: a late request that puts the hold back does nothing then (grace.go).
-- KEYS 1 the tombstone
-- ARGV 1 what it says · 2 how long it lives, ms
-- Replies 1
-- Atomic: DEL comes first, so it passes at the memory limit (R13).
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
