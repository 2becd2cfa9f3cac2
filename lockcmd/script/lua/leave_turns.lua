-- leave_turns.lua takes a Leash out of the list of turns when nobody waits there any more. If the
-- lock is reserved for that Leash, the next one gets its turn.
-- KEYS
--   1 the turns of the Leashes that wait
-- ARGV
--   1 this Leash in the list
--   2 the event for the Leash whose turn it is
--   3 channel of the lock's releases
--   4 ways to publish
--   5 the message that tells of a release
-- Replies
--   1: the Leash is not in the list any more
-- Atomic: otherwise a Leash that joins the list at the same time could be lost.
-- Rules: R21.
needs('SET', 'DEL')
local till, list = readTurns(redis.pcall('GET', KEYS[1]))
local place = placeOf(list, ARGV[1])
if not place then return 1 end
table.remove(list, place)
if place == 1 and till == 0 then tellNext(list, ARGV[1], ARGV[2]) end
if place == 1 and till > 0 and #list > 0 then reserve(KEYS[1], list, ARGV[2]) else writeTurns(KEYS[1], place == 1 and 0 or till, list) end
if place == 1 and till > 0 then publish(ARGV[3], ARGV[4], #list > 0 and '0' .. ARGV[5] or ARGV[5]) end
return 1
