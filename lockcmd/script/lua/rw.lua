-- rw.lua follows the prelude and rw_read.lua or rw_write.lua in the scripts of READ and WRITE
-- holds. key is the lock, the hash of Redisson's read-write lock. leash is the hash {key}:leash
-- with the records. A record has the field that its hold has in key. More fields in key would break
-- Redisson's write unlock.

-- timeoutKey is the name of Redisson's key that lives as long as the i-th count of the read hold in
-- a field.
local function timeoutKey(leash, field, i) return string.sub(leash, 1, -6) .. field .. ':rwlock_timeout:' .. i end

-- timeoutValue is what to write into a timeout key. n is the count that the hold had before. Two
-- locks can have the same timeout key: owner b:c of lock {a}, and owner c of lock {a}:b. The value
-- is then '2'.
local function timeoutValue(name, n)
  local old = redis.pcall('GET', name)
  return (old == '2' or type(old) == 'string' and n == 0) and '2' or '1'
end

-- isShared reports whether another lock may have the same timeout key. Then the key is not deleted.
-- It expires when nobody renews it.
local function isShared(name) return redis.pcall('GET', name) == '2' end

-- dropTimeouts deletes the timeout keys of a read hold, from one count to another.
local function dropTimeouts(leash, field, from, to)
  for i = from, math.min(to, 10000) do
    local name = timeoutKey(leash, field, i)
    if not isShared(name) then redis.pcall('DEL', name) end
  end
end

-- raiseTimeout makes a timeout key last at least ms.
local function raiseTimeout(name, ms)
  if ms <= 0 then return end
  local left = redis.call('PTTL', name)
  if left == -2 then redis.call('SET', name, '1', 'PX', ms)
  elseif left < ms then redis.call('PEXPIRE', name, ms) end
end

-- readHold reads the hold in a field: its count (0 for none) and its record. A key of another type
-- holds nothing. The other results are another error, and the lock's mode.
local function readHold(key, leash, field)
  local h, l = redis.pcall('HMGET', key, field, 'mode'), redis.pcall('HGET', leash, field)
  local err = h.err and h or type(l) == 'table' and l
  if err and not string.find(err.err, 'WRONGTYPE', 1, true) then return 0, {}, err end
  return not err and tonumber(h[1] or 0) or 0, parse(not err and l), nil, h[2]
end

-- endAge is the age in ms at which a write hold ends even if the lock lasts longer. A lease ends by
-- its TTL. A renewed hold of Leash beside a read hold of its owner ends by "until=" in the record's
-- ext. nil means that the hold lasts as long as the lock.
local function endAge(r)
  if not r[OPTS] then return nil end
  return tonumber(renewed(r[OPTS]) and (string.match(r[EXT], 'until=(%d+)')) or not renewed(r[OPTS]) and r[TTL] or nil)
end

-- extendUntil writes into the record of a renewed write hold that it lasts at least ms from now.
local function extendUntil(r, ms)
  r[EXT] = setPair(r[EXT], 'until', math.max(age(r) + ms, endAge(r) or 0))
  return r
end

-- setLease writes into a lease's record that it lasts ms from now. The TTL in it is never below 0
-- and counts from the grant.
local function setLease(r, ms) r[TTL] = wholeText(ageFromZero(r) + ms) end

-- holdLeft is how many ms the hold in a field with count n still lasts, 0 when it is over. A read
-- hold lasts as long as one of its timeout keys. A write hold lasts as long as the lock, or as its
-- record says. Keys that cannot be read in a slot migration count as held.
local function holdLeft(key, leash, field, n)
  local left, most = redis.call('PTTL', key), 0
  if left == -1 then left = 86400000 end
  if string.sub(field, -6) == ':write' then
    local r = parse(redis.call('HGET', leash, field))
    local over = endAge(r)
    return math.max(over and math.min(left, over - age(r)) or left, 0)
  end
  -- No real hold has that many counts.
  if n > 10000 then return left end
  for i = 1, n do
    local ms = redis.pcall('PTTL', timeoutKey(leash, field, i))
    most = math.max(most, type(ms) == 'number' and ms or left)
  end
  return most
end

-- crowdLeft is how many ms a lock with more than 64 readers lasts, if one of a few random holds
-- lasts for at least half of that. Otherwise it is nil. It spares a look at all other holds: if a
-- thousand readers ended, that would be a million looks.
local function crowdLeft(key, leash, but)
  if redis.call('HLEN', key) <= 64 or redis.call('HGET', key, 'mode') ~= 'read' then return nil end
  local left, some = redis.call('PTTL', key), redis.pcall('HRANDFIELD', key, 8, 'WITHVALUES')
  -- Redis before 6.2 cannot do this.
  if some.err then return nil end
  for i = 1, #some, 2 do
    local n = some[i] ~= but and tonumber(some[i + 1])
    if n and left > 0 and holdLeft(key, leash, some[i], n) * 2 >= left then return left end
  end
end

-- othersLeft returns how many ms any hold but the one in field "but" still lasts, how long the
-- writer lasts, and the writer's field. Unless crowdLeft knows, it reads every count of every hold,
-- as Redisson's unlock does.
local function othersLeft(key, leash, but)
  local crowd = crowdLeft(key, leash, but)
  if crowd then return crowd, 0, nil end
  local all, most, writes, writer = redis.call('HGETALL', key), 0, 0, nil
  for i = 1, #all, 2 do
    local n = all[i] ~= but and tonumber(all[i + 1])
    local ms = n and holdLeft(key, leash, all[i], n) or 0
    most = math.max(most, ms)
    if n and string.sub(all[i], -6) == ':write' then writes, writer = ms, all[i] end
  end
  return most, writes, writer
end

-- writeRecord writes the record of the hold in a field.
local function writeRecord(_, leash, field, r) redis.call('HSET', leash, field, record(r)) end

-- lengthen makes a hold last at least ms from now. The caller writes its record afterwards.
local function lengthen(key, leash, field, n, r, ms)
  if MINE == 'write' and endAge(r) then extendUntil(r, ms) end
  for i = 1, MINE == 'read' and n or 0 do raiseTimeout(timeoutKey(leash, field, i), ms) end
  for _, k in ipairs({key, leash}) do raiseTTL(k, redis.call('PTTL', k), ms) end
end

-- setEnd makes a lease last ms from now, which may be less than remains, and writes its record. The
-- TTL in the record counts from the grant. The lock lasts as long as the longest of its holds.
local function setEnd(key, leash, field, n, r, ms)
  needs('PTTL', 'PEXPIRE', 'HGETALL', 'HLEN', 'TIME')
  for i = 1, MINE == 'read' and n or 0 do
    local name = timeoutKey(leash, field, i)
    if i == 1 or redis.call('PTTL', name) > ms then redis.call('PEXPIRE', name, ms) end
  end
  if MINE == 'read' then raiseTimeout(timeoutKey(leash, field, 1), ms) end
  setLease(r, ms)
  writeRecord(key, leash, field, r)
  raiseTTL(key, redis.call('PTTL', key), ms)
  local most = othersLeft(key, leash)
  for _, k in ipairs({key, leash}) do redis.call('PEXPIRE', k, most) end
end

-- dropWriteHold removes the write hold in a field when it has ended and its owner's read hold goes
-- on. Other readers can then enter again, Redisson's too.
local function dropWriteHold(key, leash, field)
  for _, k in ipairs({key, leash}) do redis.call('HDEL', k, field) end
  redis.call('HSET', key, 'mode', 'read')
end

-- decrement takes one of a hold's n counts back and writes its record. It deletes the timeout key
-- of that count. The first timeout key lasts as long as the deleted one would have (R12), because
-- Redisson deletes from the end. The first write is one that Redis allows at maxmemory (R13).
local function decrement(key, leash, field, n, r)
  needs('PTTL', 'PEXPIRE', 'SET', 'DEL', 'HINCRBY', 'HSET')
  local last = MINE == 'read' and timeoutKey(leash, field, n) or key
  local left = redis.call('PTTL', last)
  if MINE == 'read' then
    redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), left, 1))
    if left > 0 then raiseTimeout(timeoutKey(leash, field, 1), left) end
    if not isShared(last) then redis.call('DEL', last) end
  else redis.call('PEXPIRE', key, left > 0 and left or r[TTL]) end
  redis.call('HINCRBY', key, field, -1)
  writeRecord(key, leash, field, r)
end

-- endHold ends the hold in a field, whatever its count n. When no other hold is left, the lock is
-- deleted. When only the writer's readers are left, it becomes a read lock, and waiting readers are
-- told. Redisson does not tell them. The lock lasts as long as the holds that are left. It writes
-- to no key that may be gone: in a slot that migrates, Redis would refuse that half way. turns has
-- the arguments of callNext: key, leash, waits and event. It is nil where there are no turns.
local function endHold(key, leash, field, n, channel, modes, turns)
  local most, writes = othersLeft(key, leash, field)
  needs('DEL', 'PEXPIRE', 'HDEL', 'HSET', unpack(turns and {'GET', 'TIME', 'SET'} or {}))
  if most == 0 then
    redis.call('DEL', key, leash)
  else
    for _, k in ipairs({key, leash}) do
      redis.call('PEXPIRE', k, most)
      redis.call('HDEL', k, field)
    end
    if writes == 0 and MINE == 'write' then redis.call('HSET', key, 'mode', 'read') end
  end
  if MINE == 'read' then dropTimeouts(leash, field, 1, n) end
  if most == 0 and turns and redis.pcall('EXISTS', turns.key) == 1 then
    callNext(turns.key, turns.leash, turns.waits, turns.event, channel, modes, WORD)
  elseif most == 0 or MINE == 'write' then publish(channel, modes, WORD) end
end
