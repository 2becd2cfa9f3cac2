-- rw_revoke.lua takes a count of a READ or WRITE hold back, or ends it, for somebody who is not its carrier, or under a client's ID.
-- KEYS 1 the lock · 2 its records · 3 the carrier's tombstone · 4 where the answer to this request lies
--      3 and 4 are left out in a slot that migrates (R14); the caller then sees to them itself
-- ARGV 1 owner · 2 token · 3 carrier · 4 "all" or "" · 5 channel · 6 ways to publish · 7 how long 3 and 4 live, ms
--      8 the carrier's channel, "" when it need not be told · 9 what to say there of the end · 10 and when counts remain
--      11 "broken" ends one that is to be broken, and says so in 3
-- Replies 1 ended · 0 counts remain · -1 no such hold, or its holder is being told that it is broken, or knows of its loss, which ends it
-- Atomic: as rw_release.lua; and the answer must be there exactly when the deed is done, or a repetition takes another count (R7).
local again = KEYS[4] and redis.call('GET', KEYS[4])
if again then return tonumber(again) end
local key, leash, field = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX
local n, r, _, err = readHold(key, leash, field)
if err then return err end
if n == 0 or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end
local stone, breaks = KEYS[3] and redis.pcall('GET', KEYS[3]), ARGV[11] == 'broken'
if stone == 'broken' and not breaks then return -1 end -- its holder is being told of a loss
local lost = not breaks and type(stone) == 'string' and string.find(stone, '^lost ') -- and has been: what is left of it is ended all the same
needs('SET')
if n > 1 and ARGV[4] ~= 'all' and not lost then
  decrement(key, leash, field, n, r)
  if KEYS[4] then redis.call('SET', KEYS[4], '0', 'PX', ARGV[7]) end
  if ARGV[8] ~= '' then redis.pcall('PUBLISH', ARGV[8], ARGV[10]) end
  return 0
end
endHold(key, leash, field, n, ARGV[5], ARGV[6])
local says = breaks and 'broken forced' or not lost and ARGV[8] ~= '' and 'released'
if KEYS[3] and says then redis.call('SET', KEYS[3], says, 'PX', ARGV[7]) end
if KEYS[4] and not lost then redis.call('SET', KEYS[4], '1', 'PX', ARGV[7]) end
if ARGV[8] ~= '' then redis.pcall('PUBLISH', ARGV[8], ARGV[9]) end
return lost and -1 or 1
