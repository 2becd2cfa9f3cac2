-- prelude.lua is put before every script. It holds the record of a hold and the steps that several
-- scripts share. record.go describes the bytes of a record. These are the positions of its words.
local TOKEN, CARRIER, REQ, REPLY, SINCE, TTL, OPTS, EXT, ID, CLIENT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

-- parse splits a record into its words. Without a valid record it returns an empty table.
local function parse(record)
  if not record then return {} end
  return {string.match(record, '^L1 (%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+) (.*)$')}
end

-- wholeText is a whole number as text.
local function wholeText(n) return string.format('%.0f', n) end

-- renewed reports whether a hold with these options is renewed (w) rather than a lease (l).
local function renewed(opts) return string.sub(opts or '', 1, 1) == 'w' end

-- record joins words into the text of a record.
local function record(words) return 'L1 ' .. table.concat(words, ' ') end

-- setPair writes name=value among the pairs in the record's last word (EXT). It replaces an earlier
-- value of the same name.
local function setPair(more, name, value)
  local pairs = {}
  for pair in string.gmatch(more, '[^,]+') do
    if pair ~= '-' and string.sub(pair, 1, #name + 1) ~= name .. '=' then pairs[#pairs + 1] = pair end
  end
  pairs[#pairs + 1] = name .. '=' .. wholeText(value)
  return table.concat(pairs, ',')
end

-- nowMillis is Redis's clock in whole ms since 1970.
local function nowMillis()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- age is the age of a hold in ms, by Redis's clock.
local function age(r) return nowMillis() - tonumber(r[SINCE]) end

-- ageFromZero is age, but at least 0. When the clock is now before the grant, the record's start is
-- set to now.
local function ageFromZero(r)
  local past = age(r)
  if past < 0 then r[SINCE] = wholeText(r[SINCE] + past) end
  return math.max(past, 0)
end

-- needs ends the script with an error unless Leash's own user may run these commands. Redis does
-- not undo the writes of a script that fails. So needs comes before the first write and names the
-- commands that follow it. It works from Redis 7 on. Newer servers want as many arguments as the
-- command takes, so the key stands for all of them, up to three.
local function needs(...)
  local check, k = redis.acl_check_cmd, KEYS[1]
  for _, name in ipairs(check and {...} or {}) do
    local known, may = pcall(check, name, k, k, k)
    for n = 0, 2 do if not known then known, may = pcall(check, name, unpack({k, k}, 1, n)) end end
    if known and not may then
      error({err = "NOPERM Leash's own user has no permissions to run the '" .. string.lower(name) .. "' command on that key"})
    end
  end
end

-- raiseTTL sets a key's TTL but never lowers it (R12). A key without a TTL gets one again. With 0
-- ms the caller only reads, and nothing is changed.
local function raiseTTL(key, left, ms) if ms > 0 and left < ms then redis.call('PEXPIRE', key, ms) end end

-- publish sends a wake-up on the channel in the ways that mode (p, s) names. word is the message
-- that Redisson expects, '0' if left out. It may fail: Redis before 7 has no SPUBLISH, and the user
-- may lack the right to the channel. A failure undoes nothing, and waiters also retry on their own.
local function publish(channel, mode, word)
  if string.find(mode, 'p', 1, true) then redis.pcall('PUBLISH', channel, word or '0') end
  if string.find(mode, 's', 1, true) then redis.pcall('SPUBLISH', channel, word or '0') end
end

-- passMemoryLimit lets the rest of a script run at Redis's memory limit. It makes a first write
-- that Redis allows there and that changes nothing.
local function passMemoryLimit(key)
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, math.max(left, 1)) else redis.call('PERSIST', key) end
end

-- readInteger reads the integer that a string holds, 0 for a missing string. It returns nil and an
-- error reply when the value is no integer, or one too large for Lua.
local function readInteger(key)
  local v = redis.pcall('GET', key)
  if type(v) == 'table' and v.err then return nil, v end
  local n = (not v or v == '0') and 0 or tonumber((string.match(v, '^%-?[1-9]%d*$')))
  if n and math.abs(n) < 9007199254740992 then return n end
  return nil, redis.error_reply('ERR value is not an integer or out of range')
end

-- canMint reports whether mintToken can count a token there. A script that ends a hold and then
-- grants one calls it before it ends the hold.
local function canMint(counter)
  local last = redis.pcall('GET', counter)
  return type(last) ~= 'table' and (tonumber(last or 0) or 0) < 9007199254740991
end

-- mintToken counts a new token, above the last one (R6), and stores it for ttl ms ('0': without
-- end). last is what the counter has, if the caller has read it. It returns the token, its text and
-- Redis's clock in ms as text, or an error.
local function mintToken(counter, ttl, last)
  local now = redis.call('TIME')
  if last == nil then last = redis.call('GET', counter) end
  -- The clock in us. Joining its two texts costs less than printing a number.
  local text = now[1] .. string.sub('00000' .. now[2], -6)
  local clock, token, least = text, tonumber(text), (tonumber(last or 0) or 0) + 1
  if token < least then token, text = least, wholeText(least) end
  if token >= 9007199254740992 then return nil, redis.error_reply('ERR the token counter of this lock is out of range') end
  -- NX, because MGET does not tell a key of another type from a missing one.
  local stored
  if not last then stored = redis.call('SET', counter, text, 'NX', unpack(ttl == '0' and {} or {'PX', ttl}))
  elseif ttl == '0' or redis.call('PTTL', counter) == -1 then stored = redis.call('SET', counter, text)
  else stored = redis.call('SET', counter, text, 'PX', ttl) end
  if not stored then return nil, redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value') end
  return token, text, string.sub(clock, 1, -4)
end

-- newRecord is the record of a new hold. g is as in grant. It is record without a list of words.
local function newRecord(text, since, g)
  return 'L1 ' .. text .. ' ' .. g[2] .. ' ' .. g[3] .. ' ' .. text .. ' ' .. since .. ' ' .. g[4] .. ' ' .. g[5]
    .. ' ' .. (g[9] or '-') .. ' ' .. g[7] .. ' ' .. g[8]
end

-- grant makes a hold of a free key: a token, the owner's count 1 and the record. In this order,
-- Redis refuses at its memory limit before anything has changed. g = {owner, carrier, req, ttl,
-- opts, token ttl, id, client, more}. g.last is as in mintToken.
local function grant(key, counter, g)
  needs('HSET', 'PEXPIRE')
  local token, text, since = mintToken(counter, g[6], g.last)
  if not token then return text end
  redis.call('HSET', key, g[1], '1', 'leash', newRecord(text, since, g))
  redis.call('PEXPIRE', key, g[4])
  return {1, token, tonumber(g[4])}
end
