-- permit_hold.lua follows permits.lua in the script that moves a hold. It has the functions of
-- plain.lua for a permit.
local SUFFIX, AFTER = '', 4

local function readHold(_, _, permit)
  local bad = wrongType()
  if bad then return 0, {}, bad end
  return redis.call('ZSCORE', KEYS[2], bytes(permit)) and 1 or 0, parse(redis.call('HGET', KEYS[3], permit))
end

local function holdLeft(_, _, permit) return math.max(redis.call('ZSCORE', KEYS[2], bytes(permit)) - nowMillis(), 0) end

local function writeRecord(_, _, permit, r) redis.call('HSET', KEYS[3], permit, record(r)) end

local function lengthen(_, _, permit, _, _, ms)
  needs('ZADD')
  redis.call('ZADD', KEYS[2], wholeText(nowMillis() + ms), bytes(permit))
  extendRecords(ms)
end
