-- probe.lua says which master this is and since when (lockcmd/failover). It leaves a mark where the
-- server itself does not know that.
-- KEYS
--   1 the mark: an identity and since when, ms; left out when no slot of the node takes it
-- ARGV
--   1 an identity, "" for none
--   2 since when it has been master at the latest, ms since 1970
--   3 how long a mark lives, ms
-- Replies
--   {identity, replication id, since, now}: a master; times in ms since 1970
--   {}: not a master
-- Atomic: the identity and its mark belong together. A promoted master became master at the first
-- probe at the latest. DEL comes first, so it works at the memory limit.
-- Rules: R13.
local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
local function field(name) return string.match(info, '\n' .. name .. ':([^\r\n]*)') or '' end
if field('role') ~= 'master' then return {} end
local now, replid = nowMillis(), field('master_replid')
local id = field('run_id') .. ':' .. replid
-- The uptime is in whole seconds.
local since = now - now % 1000 - ((tonumber(field('uptime_in_seconds')) or 0) - 1) * 1000
local mark = KEYS[1] and redis.pcall('GET', KEYS[1])
local marked, at = string.match(type(mark) == 'string' and mark or '', '^(%S+) (%d+)$')
local function run(identity) return string.match(identity or '', '^%x+') end
-- It was a replica, or it has restarted with its data.
if string.find(field('master_replid2'), '[1-9a-f]') then
  since = now
  if marked == id then since = math.min(since, tonumber(at)) end
  if ARGV[1] == id then since = math.min(since, tonumber(ARGV[2])) end
  if KEYS[1] and (marked ~= id or since < tonumber(at)) then
    needs('GET', 'SET')
    redis.call('DEL', KEYS[1])
    redis.call('SET', KEYS[1], id .. string.format(' %.0f', since), 'PX', ARGV[3])
  end
else
  -- A master without replicas does not remember that it was a replica.
  if run(marked) == field('run_id') then since = math.max(since, tonumber(at)) end
  if run(ARGV[1]) == field('run_id') then since = math.max(since, tonumber(ARGV[2])) end
end
return {id, replid, since, now}
