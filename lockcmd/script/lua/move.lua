-- move.lua gives a hold another carrier. LOCK.ATTACH calls it, and so does a LOCK.ACQUIRE or
-- SEM.ACQUIRE that is repeated with the hold's last ID from another connection.
-- KEYS
--   the keys of the hold, by its mode:
--     the lock
--     READ, WRITE: the lock, its records
--     permit: the semaphore, its zset, Leash's records
--   the old carrier's tombstone
--   the new carrier's tombstone
-- ARGV
--   1 owner, or the permit
--   2 token
--   3 old carrier
--   4 the last request number in the record, "" for any
--   5 the hold's ID as "=id", "" for any
--   6 new carrier
--   7 its request number
--   8 client
--   9 text of the old carrier's tombstone
--   10 how long the tombstone lives at least, ms; it lives as long as the hold
--   11 the old carrier's channel, "" when it needs no hold event
--   12 the hold event
-- Replies
--   {1, token, ms left, count, the hold's age in ms, its record}: it has the new carrier
--   {-1}: no such hold, or it has changed
-- Atomic: a hold has one carrier. The old one's requests must fail as soon as the new one's
-- succeed.
-- Rules: R4, R7, R11, R23, R30.
local key, leash, field = KEYS[1], KEYS[2], ARGV[1] .. SUFFIX
local n, r, err = readHold(key, leash, field)
if err then return err end
local left = n > 0 and holdLeft(key, leash, field, n) or 0
if left == 0 or r[TOKEN] ~= ARGV[2] or (ARGV[5] ~= '' and r[ID] ~= ARGV[5]) then return {-1} end
if r[CARRIER] ~= ARGV[6] then
  if r[CARRIER] ~= ARGV[3] or (ARGV[4] ~= '' and r[REQ] ~= ARGV[4]) then return {-1} end
  needs('TIME', 'HSET', 'SET', 'DEL', 'PTTL', 'PEXPIRE')
  if renewed(r[OPTS]) then
    left = math.max(left, tonumber(r[TTL]))
    lengthen(key, leash, field, n, r, left)
  end
  -- A promoted master may have an older state of the hold. The count of moves tells which carrier
  -- is the later one (restore.go).
  local moves = tonumber((string.match(r[EXT], 'moves=(%d+)'))) or 0
  r[CARRIER], r[REQ], r[REPLY], r[CLIENT] = ARGV[6], ARGV[7], r[TOKEN], ARGV[8]
  r[EXT] = setPair(r[EXT], 'moves', moves + 1)
  writeRecord(key, leash, field, r)
  redis.call('SET', KEYS[AFTER], ARGV[9], 'PX', wholeText(math.max(tonumber(ARGV[10]), tonumber(r[TTL]))))
  redis.call('DEL', KEYS[AFTER + 1])
  if ARGV[11] ~= '' then redis.pcall('PUBLISH', ARGV[11], ARGV[12]) end
end
return {1, tonumber(r[TOKEN]), left, n, age(r), record(r)}
