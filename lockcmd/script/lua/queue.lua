-- queue.lua follows the prelude in scripts that know FAIR waiters. It keeps their order and knows
-- which of them are alive (R22).
-- All in ms: what Redisson adds for each waiter; how far our scores stay ahead at least; a day.
local WAIT, AHEAD, DAY = 300000, 60000, 86400000
-- For how many ms a waiter of ours counts as alive when Redis may have been away. No waiter is
-- reported for longer.
local GRACE = 20000
-- How many waiters are read at once, and how many dead ones a call removes at most. A script must
-- not stall Redis.
local STEP, REAP = 500, 1000

-- fairQueue is the queue whose keys are in KEYS from at on. The first two are Redisson's: the list
-- of owners, and the zset of the ms after which each counts as dead. The third is ours: when each
-- waiter of a Leash counts as dead unless it is reported again. With the list alone, only q.head
-- and q.wakeHead work, and the first waiter may be dead. A script pays for one closure while there
-- is no queue.
local function fairQueue(at)
  local list, timeouts, waiters, now = KEYS[at], KEYS[at + 1], KEYS[at + 2], nowMillis()
  local q = {list = list, timeouts = timeouts, waiters = waiters, now = now}

  -- scores returns the scores of some members of a zset, false for a missing one.
  local function scores(zset, who)
    local all = {}
    for i = 1, #who, STEP do
      for _, score in ipairs(redis.call('ZMSCORE', zset, unpack(who, i, math.min(i + STEP - 1, #who)))) do all[#all + 1] = score end
    end
    return all
  end

  -- eachChunk calls a command on a key with all words, some at a time.
  local function eachChunk(command, key, words)
    for i = 1, #words, 2 * STEP do redis.call(command, key, unpack(words, i, math.min(i + 2 * STEP - 1, #words))) end
  end

  -- lowerScores lowers the scores of some waiters when as many as by before them are gone. It
  -- subtracts what those had added. It never lowers a score so far that a live waiter counts as
  -- dead.
  local function lowerScores(who, by)
    local lower = {}
    for i, old in ipairs(scores(timeouts, who)) do
      old = tonumber(old)
      local new = old and math.max(old - by[i] * WAIT, math.min(old, now + AHEAD))
      if new ~= old then
        lower[#lower + 1] = new
        lower[#lower + 1] = who[i]
      end
    end
    eachChunk('ZADD', timeouts, lower)
  end

  -- q.remove takes owners out with the same effect as one at a time. The scores of the waiters
  -- behind them fall by what they had added.
  function q.remove(owners)
    if redis.call('EXISTS', list, waiters) == 0 then return end
    local leaves, behind, by, gone = {}, {}, {}, 0
    for _, owner in ipairs(owners) do leaves[owner] = true end
    local who = redis.call('LRANGE', list, 0, -1)
    -- Redis allows this first write at maxmemory (R13).
    eachChunk('ZREM', timeouts, owners)
    eachChunk('ZREM', waiters, owners)
    for i, other in ipairs(who) do
      if leaves[other] then
        gone = gone + 1
        redis.call('LSET', list, i - 1, '')
      elseif gone > 0 then
        behind[#behind + 1] = other
        by[#behind] = gone
      end
    end
    if gone > 0 then redis.call('LREM', list, gone, '') end
    lowerScores(behind, by)
    if redis.call('EXISTS', list) == 0 then redis.call('DEL', timeouts, waiters) end
  end

  -- capLifetimes lets no waiter of ours count as alive for more than GRACE ms from now. A score can
  -- be too far ahead after Redis's clock was set back. A waiter that lives is reported again.
  local function capLifetimes()
    passMemoryLimit(waiters)
    for _, owner in ipairs(redis.call('ZRANGEBYSCORE', waiters, now + GRACE, '+inf')) do
      redis.call('ZADD', waiters, now + GRACE, owner)
    end
  end

  -- dead lists the dead waiters at the front of the queue. A waiter of ours is dead when it is not
  -- reported in time. Any other waiter is dead when its score has passed, as in Redisson, or when
  -- it has no score. ours is the number of ours among them.
  local function dead(before)
    local who, ours, size = {}, 0, 1
    while #who < REAP do
      local some = redis.call('LRANGE', list, #who, #who + size - 1)
      local heard, theirs = scores(waiters, some), scores(timeouts, some)
      for i, owner in ipairs(some) do
        local alive, score = tonumber(heard[i]), tonumber(theirs[i])
        if alive and alive > now + GRACE then capLifetimes() end
        if alive and alive >= before or not alive and score and score > now then return who, ours end
        who[#who + 1] = owner
        if alive then ours = ours + 1 end
      end
      if #some < size then break end
      size = 100
    end
    return who, ours
  end

  -- q.head is the first live waiter, false when there is none. It removes the dead ones before it.
  -- before is the time up to which ours must have been reported. It is earlier than now when Redis
  -- itself may have been away. more says that so many were dead that the next one may be dead too.
  function q.head(before)
    local first = redis.call('LINDEX', list, 0)
    local who, ours = {}, 0
    if first and timeouts then who, ours = dead(before) end
    if #who == 0 then return first end
    -- Redis allows this first write at maxmemory (R13).
    redis.call('LTRIM', list, #who, -1)
    eachChunk('ZREM', timeouts, who)
    if ours > 0 then
      eachChunk('ZREM', waiters, who)
      local behind, by = redis.call('LRANGE', list, 0, -1), {}
      for i = 1, #behind do by[i] = ours end
      lowerScores(behind, by)
      if #behind == 0 then redis.call('DEL', timeouts, waiters) end
    end
    return redis.call('LINDEX', list, 0), #who >= REAP
  end

  -- q.wakeHead tells the first waiter that the lock is free. It never fails: earlier writes stay,
  -- and waiters also retry on their own.
  function q.wakeHead(channel, mode)
    local ok, first = pcall(q.head, now - GRACE)
    if ok and first then publish(channel .. ':' .. first, mode) end
  end

  -- q.granted ends the wait of an owner whose hold has these options. It tells the next first
  -- waiter when a lease ends, because a lease ends without a message.
  function q.granted(owner, opts, channel, mode)
    q.remove({owner})
    if not renewed(opts) then q.wakeHead(channel, mode) end
  end
  return q
end

-- needsForQueue ends the script unless the user may run every command that changes a queue.
local function needsForQueue()
  needs('EXISTS', 'DEL', 'ZREM', 'ZADD', 'ZSCORE', 'ZMSCORE', 'ZCARD', 'ZRANGE', 'ZRANGEBYSCORE', 'LLEN', 'LRANGE', 'LINDEX', 'LPOS', 'LSET',
    'LREM', 'LTRIM', 'LPUSH', 'RPUSH', 'PEXPIREAT', 'PTTL', 'PEXPIRE', 'PERSIST')
end

-- wakeHead is fairQueue(at).wakeHead, and never fails either.
local function wakeHead(at, channel, mode) pcall(function() fairQueue(at).wakeHead(channel, mode) end) end
