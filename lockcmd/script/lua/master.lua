-- master.lua follows the prelude in scripts that grant. It checks which master runs them
-- (lockcmd/failover).

-- notGranting returns this master's replication id if this master may not grant. may is the id of
-- the master that may: '-' for none, '' for any. INFO takes 5 µs, so a script calls this only when
-- the lock is free.
local function notGranting(may)
  if may == '' then return nil end
  local id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '?'
  return id ~= may and id or nil
end
