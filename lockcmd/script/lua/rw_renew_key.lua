-- rw_renew_key.lua renews one key of a READ or WRITE hold, or the records of a permit as those of a
-- READ hold. The watchdog calls it in a slot migration, when the keys are on two nodes.
-- KEYS
--   1 the lock, its records, or one of the hold's timeout keys
-- ARGV
--   1 TTL ms, 0 to check only
--   2 owner, or the permit; "" for a timeout key
--   3 the record's prefix, "" for the lock
-- Replies
--   the hold's count, for the lock
--   1: the hold is there, for records and timeout keys
--   0: the hold is not there
-- Atomic: as rw_renew.lua, for one key. A hold lasts while its field is in the lock and its record
-- is in the records.
-- Rules: R12, R13, R14.
local key, ttl = KEYS[1], tonumber(ARGV[1])
if ARGV[2] == '' then
  raiseTimeout(key, ttl)
  return 1
end
local h = redis.call('HGET', key, ARGV[2] .. SUFFIX)
if not h or string.sub(h, 1, #ARGV[3]) ~= ARGV[3] then return 0 end
local writes = MINE == 'write' and ARGV[3] ~= '' and ttl > 0 and string.find(h, 'until=', 1, true)
if writes then needs('TIME', 'PEXPIRE', 'PERSIST', 'HSET') end
raiseTTL(key, redis.call('PTTL', key), ttl)
if writes then
  passMemoryLimit(key)
  redis.call('HSET', key, ARGV[2] .. SUFFIX, record(extendUntil(parse(h), ttl)))
end
return ARGV[3] == '' and tonumber(h) or 1
