-- fair_head.lua follows queue.lua in the acquire of FAIR locks. It puts an owner into the queue and
-- decides when that owner may take the lock (R22).

-- isQueued reports whether an owner with this score is in the list. A search of the list is slow.
-- An owner with a score is in the list when both have the same length.
local function isQueued(q, owner, score)
  if redis.call('LLEN', q.list) == redis.call('ZCARD', q.timeouts) then return score end
  return redis.call('LPOS', q.list, owner)
end

-- enqueue puts an owner at the end if it is not in the queue, as Redisson does. left is the lock's
-- PTTL. It counts the owner as alive for patience ms. An owner that is alive but not queued was
-- removed by Redisson while it was first. It becomes first again.
local function enqueue(q, owner, left, patience)
  local list, timeouts, waiters, now = q.list, q.timeouts, q.waiters, q.now
  local score = tonumber(redis.call('ZSCORE', timeouts, owner))
  if not isQueued(q, owner, score) then
    local last = redis.call('LINDEX', list, -1)
    local before = last and tonumber(redis.call('ZSCORE', timeouts, last))
    score = (before and before - now or left) + WAIT + now
    redis.call('ZADD', timeouts, score, owner)
    local reaped = (tonumber(redis.call('ZSCORE', waiters, owner)) or 0) >= now
    if reaped then redis.call('LPUSH', list, owner) else redis.call('RPUSH', list, owner) end
  end
  local most = math.max(tonumber(redis.call('ZRANGE', timeouts, -1, -1, 'WITHSCORES')[2]) or 0, now) + DAY
  -- After this write, Redis allows the rest at maxmemory (R13).
  redis.call('PEXPIREAT', list, most)
  redis.call('PEXPIREAT', timeouts, most)
  if not score or score < now + AHEAD then redis.call('ZADD', timeouts, now + AHEAD, owner) end
  redis.call('ZADD', waiters, now + patience, owner)
  redis.call('PEXPIREAT', waiters, most)
end

-- mayTake reports whether an owner may take a free lock: no live waiter is before it. Otherwise it
-- enqueues the owner if that one waits (patience is not ""). It also wakes the first waiter of a
-- free lock, because a lock can become free without a message. more says that the answer is not
-- known yet. Too many dead waiters came first to remove all at once, so the caller must ask again.
local function mayTake(q, free, owner, left, patience, channel, mode)
  local waiters, now = q.waiters, q.now
  local heard = patience ~= '' and tonumber(redis.call('ZSCORE', waiters, owner))
  -- It lives and was not reported, so Redis was away. Waiters that were last reported at the same
  -- time get more time too.
  if heard and heard < now then
    for _, other in ipairs(redis.call('ZRANGEBYSCORE', waiters, heard - patience / 4, now)) do
      redis.pcall('ZADD', waiters, now + math.floor(patience / 4), other)
    end
  end
  local first, more = q.head(heard and now or now - GRACE)
  if free and first and more then return false, true end
  if free and (not first or first == owner) then return true end
  if patience ~= '' then enqueue(q, owner, left, tonumber(patience)) end
  if free then q.wakeHead(channel, mode) end
  return false
end
