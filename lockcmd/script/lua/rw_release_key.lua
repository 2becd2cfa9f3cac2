-- rw_release_key.lua does what rw_release.lua does, for one key. Leash calls it in a slot
-- migration, when the keys of a hold are on two nodes. It calls it for the records first. From then
-- on the hold is not Leash's. A count left in the lock expires like that of a dead holder.
-- KEYS
--   1 the records, or the lock
-- ARGV
--   1 to 7 are as in release.lua
--   8 how many counts the hold has
--   9 "records" or "lock"
-- Replies
--   1: ended; for the lock also when the hold is not there
--   0: counts remain
--   -1: no such hold
--   -2: a late copy, nothing done
-- Atomic: as rw_release.lua, for one key.
-- Rules: R7, R11, R13, R14.
local key, field, n = KEYS[1], ARGV[1] .. SUFFIX, tonumber(ARGV[8])
if ARGV[9] == 'records' then
  local r = parse(redis.call('HGET', key, field))
  if r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end
  local said, takes = replyUnlessEnds(r, n)
  if takes then
    needs('HSET')
    passMemoryLimit(key)
    redis.call('HSET', key, field, record(r))
  end
  if said then return said end
  redis.call('HDEL', key, field)
  return 1
end
if n > 1 and ARGV[5] ~= 'all' then
  needs('HGET', 'HINCRBY')
  passMemoryLimit(key)
  if redis.call('HGET', key, field) == ARGV[8] then redis.call('HINCRBY', key, field, -1) end
  return 0
end
needs('HLEN', 'DEL', 'HSET')
if redis.call('HDEL', key, field) == 0 then return 1 end
local others = redis.call('HLEN', key) > 1
if not others then redis.call('DEL', key)
elseif MINE == 'write' then redis.call('HSET', key, 'mode', 'read') end
if not others or MINE == 'write' then publish(ARGV[6], ARGV[7], WORD) end
return 1
