-- queue.lua stands behind the prelude of the scripts that know of FAIR waiters: the order in which they came, and who of them lives (R22).
local WAIT, AHEAD, DAY = 300000, 60000, 86400000 -- ms that Redisson adds for each waiter; that our scores stay ahead at least; of a day
local GRACE = 20000 -- ms for which a waiter of ours is let be when nobody knows whether Redis was away

-- fair is the queue whose keys stand in KEYS from at on: Redisson's list of owners and its zset of the ms after which each counts as dead;
-- and our zset of when each that stands there through a Leash counts as dead, unless it is heard of again. With the list alone there is
-- head, who may be dead then, and rouse. A script pays for one closure while there is no queue.
local function fair(at)
  local list, timeouts, waiters = KEYS[at], KEYS[at + 1], KEYS[at + 2]
  local now = redis.call('TIME')
  now = now[1] * 1000 + math.floor(now[2] / 1000)
  local q = {list = list, timeouts = timeouts, waiters = waiters, now = now}

  -- remove takes an owner out. Who stands behind it is nearer by what it had added, but not so near that it would be reaped alive.
  function q.remove(owner)
    if redis.call('EXISTS', list, waiters) == 0 then return end
    local place = redis.call('LPOS', list, owner)
    redis.call('LREM', list, 0, owner) -- the first write is one that Redis allows at maxmemory (R13)
    redis.call('ZREM', timeouts, owner)
    redis.call('ZREM', waiters, owner)
    local score, lower = {}, {}
    local all = place and redis.call('ZRANGE', timeouts, 0, -1, 'WITHSCORES') or {}
    for i = 1, #all, 2 do score[all[i]] = tonumber(all[i + 1]) end
    for _, other in ipairs(place and redis.call('LRANGE', list, place, -1) or {}) do
      local old = score[other]
      local new = old and math.max(old - WAIT, math.min(old, now + AHEAD))
      if new ~= old then
        lower[#lower + 1] = new
        lower[#lower + 1] = other
      end
    end
    for i = 1, #lower, 1000 do redis.call('ZADD', timeouts, unpack(lower, i, math.min(i + 999, #lower))) end
    if redis.call('EXISTS', list) == 0 then redis.call('DEL', timeouts, waiters) end
  end

  -- head is who stands first and lives; false when nobody does. Who does not is taken out: a waiter of ours that was not heard of, and
  -- any other when its score has come, as Redisson does, or when it has none: it would stand there for ever. before is
  -- until when ours must be heard of: now, or earlier where nobody knows whether it was Redis that was away.
  function q.head(before)
    local first = redis.call('LINDEX', list, 0)
    while first and timeouts do
      local ours, theirs = tonumber(redis.call('ZSCORE', waiters, first)), tonumber(redis.call('ZSCORE', timeouts, first))
      if ours and ours < before then q.remove(first)
      elseif not ours and (not theirs or theirs <= now) then
        redis.call('LPOP', list)
        redis.call('ZREM', timeouts, first)
      else break end
      first = redis.call('LINDEX', list, 0)
    end
    return first
  end

  -- rouse tells who stands first that the lock is free. It never fails: what was done stays done, and waiters look again by themselves.
  function q.rouse(channel, mode)
    local ok, first = pcall(q.head, now - GRACE)
    if ok and first then tell(channel .. ':' .. first, mode) end
  end

  -- took is the end of an owner's wait with these options of a hold. Whoever is first now learns when a lease ends, for that is in silence.
  function q.took(owner, opts, channel, mode)
    q.remove(owner)
    if not renewed(opts) then q.rouse(channel, mode) end
  end
  return q
end
