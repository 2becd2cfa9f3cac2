-- permits.lua follows the prelude in the scripts about permits, those of Redisson's
-- RPermitExpirableSemaphore. Its keys are:
--   KEYS[1] the semaphore, a string that counts the available permits
--   KEYS[2] its zset: permit to the time when its lease ends, in whole ms since 1970 (R23)
--   KEYS[3] Leash's records: a hash, permit to record
-- A permit is 32 hex digits in commands and in the hash, and 16 bytes in the zset.

-- bytes turns the digits of a permit into its 16 bytes.
local function bytes(permit)
  return (string.gsub(permit, '..', function(x) return string.char(tonumber(x, 16)) end))
end

-- digits turns the 16 bytes of a permit into its digits.
local function digits(member)
  return (string.gsub(member, '.', function(c) return string.format('%02x', string.byte(c)) end))
end

-- wrongType is the error reply when one of the keys has another type, nil otherwise.
local function wrongType()
  local _, bad = readInteger(KEYS[1])
  local permits, records = redis.pcall('ZCARD', KEYS[2]), redis.pcall('HLEN', KEYS[3])
  return bad or type(permits) == 'table' and permits or type(records) == 'table' and records or nil
end

-- giveBack gives n permits back and tells the waiters how many are available. turns has the
-- arguments of callNext: key, leash, waits and event. It is nil where there are no turns.
local function giveBack(n, channel, modes, turns)
  local have = redis.call('INCRBY', KEYS[1], n)
  if have > 0 and turns then callNext(turns.key, turns.leash, turns.waits, turns.event, channel, modes, wholeText(have))
  elseif have > 0 then publish(channel, modes, wholeText(have)) end
  return have
end

-- reapExpired gives back permits whose lease has ended, at most 1000 a call, as every script of
-- Redisson does. unpack limits the number. It deletes their records, and some records of permits
-- that Redisson has reaped.
local function reapExpired(now, channel, modes)
  local ended = redis.call('ZRANGEBYSCORE', KEYS[2], 0, wholeText(now), 'LIMIT', 0, 1000)
  if #ended > 0 then
    needs('INCRBY')
    redis.call('ZREM', KEYS[2], unpack(ended))
    for _, member in ipairs(ended) do redis.pcall('HDEL', KEYS[3], digits(member)) end
    giveBack(#ended, channel, modes)
  end
  -- Redis before 6.2 has no HRANDFIELD. There the records stay until the TTL of the hash is over.
  local some = redis.pcall('HRANDFIELD', KEYS[3], 8)
  for _, permit in ipairs(some) do
    local ours = string.find(permit, '^%x+$') and #permit == 32
    if ours and not redis.call('ZSCORE', KEYS[2], bytes(permit)) then redis.call('HDEL', KEYS[3], permit) end
  end
end

-- freePermit gives one permit back. It returns 1 when the permit was held. It returns -1 when it
-- was not held or its lease had ended; an ended one is given back too.
local function freePermit(permit, channel, modes, turns)
  local ends = redis.call('ZSCORE', KEYS[2], bytes(permit))
  -- Redisson before 3.17 writes the digits into the zset.
  local member = ends and bytes(permit) or permit
  ends = ends or redis.call('ZSCORE', KEYS[2], permit)
  needs('HDEL', 'INCRBY', 'TIME', unpack(turns and {'GET', 'SET', 'DEL'} or {}))
  redis.call('ZREM', KEYS[2], member)
  redis.call('HDEL', KEYS[3], permit)
  if not ends then return -1 end
  giveBack(1, channel, modes, turns)
  return tonumber(ends) > nowMillis() and 1 or -1
end

-- extendRecords makes the hash of records last as long as a lease that begins now. If the semaphore
-- itself has a TTL, the zset and the hash get the same one, as in Redisson.
local function extendRecords(ttl)
  raiseTTL(KEYS[3], redis.call('PTTL', KEYS[3]), ttl)
  local left = redis.call('PTTL', KEYS[1])
  for i = 2, left > 0 and 3 or 0 do redis.call('PEXPIRE', KEYS[i], left) end
end

-- takePermit makes a hold of a permit with that token. who = {carrier, req, ttl, opts, id, client}.
local function takePermit(permit, token, now, who)
  redis.call('ZADD', KEYS[2], wholeText(now + tonumber(who[3])), bytes(permit))
  local text = record({token, who[1], who[2], token, wholeText(now), who[3], who[4], '-', who[5], who[6]})
  redis.call('HSET', KEYS[3], permit, text)
end
