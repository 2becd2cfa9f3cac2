-- prelude.lua stands in front of every script: the record and what several scripts do to it.
-- record.go describes the record's bytes; these are the places of its words.
local TOKEN, CARRIER, REQ, REPLY, SINCE, TTL, OPTS, EXT, ID, CLIENT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

-- parse splits a record into its words; no record, or bytes that are none, give an empty table.
local function parse(record)
  if not record then return {} end
  return {string.match(record, '^L1 (%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+) (.*)$')}
end

-- renewed says whether a hold with these options is (w), or is a lease (l).
local function renewed(opts) return string.sub(opts or '', 1, 1) == 'w' end

local function record(words) return 'L1 ' .. table.concat(words, ' ') end

-- say writes name=value among the words that a record has of it in more (EXT), in the place of what was said of that before.
local function setPair(more, name, value)
  local pairs = {}
  for pair in string.gmatch(more, '[^,]+') do
    if pair ~= '-' and string.sub(pair, 1, #name + 1) ~= name .. '=' then pairs[#pairs + 1] = pair end
  end
  pairs[#pairs + 1] = name .. '=' .. string.format('%.0f', value)
  return table.concat(pairs, ',')
end

-- age is for how many ms a hold has been there, by Redis's clock.
local function age(r)
  local now = redis.call('TIME')
  return math.floor(now[1] * 1000 + now[2] / 1000) - tonumber(r[SINCE])
end

-- begun is age, but at least 0: when the clock has gone back to before the grant, the record says from here on that the hold began now.
local function ageFromZero(r)
  local past = age(r)
  if past < 0 then r[SINCE] = string.format('%.0f', r[SINCE] + past) end
  return math.max(past, 0)
end

-- needs ends the script with an error unless Leash's own user may run these commands. Redis takes back nothing that a script has written, so it
-- stands before the first write and names what comes behind that. From Redis 7 on; 0.2 µs a command.
local function needs(...)
  for _, name in ipairs(redis.acl_check_cmd and {...} or {}) do
    if not redis.acl_check_cmd(name, KEYS[1]) then
      error({err = "NOPERM Leash's own user has no permissions to run the '" .. string.lower(name) .. "' command on that key"})
    end
  end
end

-- raise sets a key's TTL, but never to less than remains (R12). A key that somebody has made to last for ever gets its TTL back; with 0 ms,
-- which is to look only, nothing is done.
local function raiseTTL(key, left, ms)
  if ms > 0 and left < ms then redis.call('PEXPIRE', key, ms) end
end

-- tell publishes a wake-up on the channel in the ways that mode (p, s) names; word is what Redisson says there, '0' if left out. It may
-- fail, for Redis before 7 has no SPUBLISH and a user may be denied the channel; what was done stays done, and waiters look again. It returns
-- how many have heard it in each way, -1 where it was not said.
local function publish(channel, mode, word)
  local plain = string.find(mode, 'p', 1, true) and redis.pcall('PUBLISH', channel, word or '0')
  local sharded = string.find(mode, 's', 1, true) and redis.pcall('SPUBLISH', channel, word or '0')
  return type(plain) == 'number' and plain or -1, type(sharded) == 'number' and sharded or -1
end

-- pass lets the rest of a script pass at Redis's memory limit: a first write that Redis allows there and that changes nothing.
local function passMemoryLimit(key)
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, math.max(left, 1)) else redis.call('PERSIST', key) end
end

-- number reads the integer a string holds, 0 for no string; nil and an error to answer when it holds none, or one that Lua cannot count.
local function readInteger(key)
  local v = redis.pcall('GET', key)
  if type(v) == 'table' and v.err then return nil, v end
  local n = (not v or v == '0') and 0 or tonumber((string.match(v, '^%-?[1-9]%d*$')))
  if n and math.abs(n) < 9007199254740992 then return n end
  return nil, redis.error_reply('ERR value is not an integer or out of range')
end

-- mints says whether mint will count a token there: whoever ends a hold first asks before.
local function canMint(counter)
  local last = redis.pcall('GET', counter)
  return type(last) ~= 'table' and (tonumber(last or 0) or 0) < 9007199254740991
end

-- mint counts a new token, above the last one (R6), and writes it down for ttl ms, '0' for ever. It returns the token, its text and
-- Redis's clock in ms as text; or an error.
local function mintToken(counter, ttl)
  local last, now = redis.call('GET', counter), redis.call('TIME')
  local token = math.max((tonumber(last or 0) or 0) + 1, tonumber(now[1]) * 1000000 + tonumber(now[2]))
  if token >= 9007199254740992 then return nil, redis.error_reply('ERR the token counter of this lock is out of range') end
  local text = string.format('%.0f', token)
  if ttl == '0' or (last and redis.call('PTTL', counter) == -1) then redis.call('SET', counter, text)
  else redis.call('SET', counter, text, 'PX', ttl) end
  return token, text, string.format('%.0f', math.floor(now[1] * 1000 + now[2] / 1000))
end

-- grant makes a hold of the free key: a token, the owner's count 1 and the record, in this order, so that Redis refuses at its memory
-- limit before anything has changed. grant = {owner, carrier, req, ttl, opts, token ttl, id, client, more}
local function grant(key, counter, g)
  needs('HSET', 'PEXPIRE')
  local token, text, since = mintToken(counter, g[6])
  if not token then return text end
  redis.call('HSET', key, g[1], '1', 'leash', record({text, g[2], g[3], text, since, g[4], g[5], g[9] or '-', g[7], g[8]}))
  redis.call('PEXPIRE', key, g[4])
  return {1, token, tonumber(g[4])}
end
