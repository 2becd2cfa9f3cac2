-- master.lua stands behind the prelude of the scripts that grant: which master they run on (grace.go).

-- barred is this master's replication id if it is not the one that may grant: may is that one's, '-' for none, '' for any.
-- INFO takes 5 µs, so it is asked for only when the lock is to be had.
local function notGranting(may)
  if may == '' then return nil end
  local id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '?'
  return id ~= may and id or nil
end

-- lift makes a token counter count on from a token, if it is behind; ttl as mint has it.
local function raiseCounter(counter, token, ttl)
  local last = redis.pcall('GET', counter)
  if type(last) == 'table' or (tonumber(last or 0) or 0) >= tonumber(token) then return end
  if ttl == '0' or (last and redis.call('PTTL', counter) == -1) then redis.call('SET', counter, token)
  else redis.call('SET', counter, token, 'PX', ttl) end
end
