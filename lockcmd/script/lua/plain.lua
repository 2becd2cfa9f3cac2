-- plain.lua follows the prelude in the scripts about one hold of a plain lock. It has the functions
-- by which such a script reads and writes a hold, whatever its mode. rw.lua and permit_hold.lua
-- have the same ones, with the same arguments: the first two keys of the hold, then its field, its
-- count n and its record r. Each of them ignores what its mode has no use for.

-- SUFFIX follows the owner in the name of a hold's field. The keys of a hold come before
-- KEYS[AFTER].
local SUFFIX, AFTER = '', 2

-- readHold reads a hold: its count (0 for none) and its record. A key of another type holds
-- nothing. Another error is the third result.
local function readHold(key, _, owner)
  local h = redis.pcall('HMGET', key, owner, 'leash')
  if h.err then return 0, {}, not string.find(h.err, 'WRONGTYPE', 1, true) and h or nil end
  return tonumber(h[1] or 0) or 0, parse(h[2])
end

-- holdLeft is how many ms a hold still lasts, -1 without a TTL.
local function holdLeft(key) return redis.call('PTTL', key) end

-- writeRecord writes the record of a hold.
local function writeRecord(key, _, _, r) redis.call('HSET', key, 'leash', record(r)) end

-- lengthen makes a hold last at least ms from now. The caller writes its record afterwards.
local function lengthen(key, _, _, _, _, ms) raiseTTL(key, redis.call('PTTL', key), ms) end

-- setEnd makes a lease last ms from now, which may be less than remains, and writes its record.
local function setEnd(key, _, _, _, r, ms)
  redis.call('PEXPIRE', key, ms)
  writeRecord(key, nil, nil, r)
end

-- decrement takes one of the hold's counts back and writes its record. The first write is one that
-- Redis allows at the memory limit (R13).
local function decrement(key, _, owner, _, r)
  needs('HINCRBY', 'HSET')
  local left = redis.call('PTTL', key)
  redis.call('PEXPIRE', key, left > 0 and left or r[TTL])
  redis.call('HINCRBY', key, owner, -1)
  writeRecord(key, nil, nil, r)
end

-- endHold ends a hold and tells waiters. The last three keys are those of the FAIR queue, if there
-- are more keys than one.
local function endHold(key, _, _, _, channel, modes)
  redis.call('DEL', key)
  publish(channel, modes)
  if #KEYS > 1 then wakeHead(#KEYS - 2, channel, modes) end
end
