-- acquire.lua tries once to take a plain lock for an owner; with queue.lua and fair_head.lua before it, a FAIR one.
-- KEYS 1 the lock · 2 its token counter · FAIR: 3 its queue · 4 the queue's timeouts · 5 our waiters
-- ARGV 1 owner · 2 carrier · 3 request number · 4 the token this carrier tracks for the owner, 0 for none
--      5 TTL ms · 6 options, w or l first · 7 token TTL ms, 0 for none · 8 ID as "=id", or "-" · 9 client · 10 more · 11 the master that may grant
--      FAIR: 12 for how long it waits at least, ms, "" when it does not wait · 13 channel of the lock's releases · 14 ways to publish · 15 this Leash's bit among the ways
--            by which waiters are heard of
-- Replies {1, token, ms left} granted, entered again, or this very request done before; and 1 when another did it, under the same ID
--      {0, PTTL, token} taken; without the token when that is not known
--      {2, token, carrier, id} the owner's hold hangs elsewhere · {3} the tracked hold is gone · {4} a late copy, nothing done
--      {5} the owner holds it in another mode · {6, replication id} it is free, but this master may not grant it
--      {7} FAIR: it is free, but so many dead wait for it that only some of them were taken out: ask again
-- Atomic: looking, counting the token and granting must be one step, or two owners see a free lock.
local owner, carrier, req, want, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local h = redis.pcall('HMGET', KEYS[1], owner, 'leash', 'mode', owner .. ':write')
if h.err then return h end
local left, r = redis.call('PTTL', KEYS[1]), parse(h[2])
if not h[1] then
  if want ~= '0' then return {3} end
  if h[4] then return {5} end
  local orphan = h[2] and redis.call('HLEN', KEYS[1]) == 1 -- a record whose owner's field was deleted (R11)
  local free = left == -2 or orphan
  local blocked = free and notGranting(ARGV[11])
  local more
  if KEYS[3] then
    needs('TIME', 'SET', 'HSET', 'PEXPIRE')
    needsForQueue()
  end
  if KEYS[3] then free, more = mayTake(fairQueue(3), free and not blocked, owner, left, ARGV[12], ARGV[13], ARGV[14], ARGV[15]) end
  if more then return {7} end
  if blocked then return {6, blocked} end
  if not free then return {0, left, tonumber(r[TOKEN])} end
elseif h[3] then return {5}
elseif r[CARRIER] ~= carrier then return {2, r[TOKEN] or '', r[CARRIER] or '', r[ID] or '-'}
elseif tonumber(r[REQ]) == req then return {1, tonumber(r[REPLY]), left}
elseif tonumber(r[REQ]) > req then return {4}
elseif want == r[TOKEN] then
  if r[ID] ~= '-' and r[ID] == ARGV[8] then return {1, tonumber(r[TOKEN]), left, 1} end
  if renewed(ARGV[6]) then -- else, and for what else it was first taken under, it stays as it is
    r[TTL] = renewed(r[OPTS]) and math.max(tonumber(r[TTL]), ttl) or ttl
    r[OPTS] = 'w' .. string.sub(r[OPTS], 2)
  end
  r[REQ], r[REPLY], r[ID], r[TTL] = ARGV[3], r[TOKEN], ARGV[8], string.format('%.0f', tonumber(r[TTL]))
  needs('HINCRBY', 'PEXPIRE')
  redis.call('HSET', KEYS[1], 'leash', record(r))
  redis.call('HINCRBY', KEYS[1], owner, 1)
  raiseTTL(KEYS[1], left, ttl)
  return {1, tonumber(r[TOKEN]), math.max(left, ttl)}
elseif want ~= '0' then return {3}
end -- else: the carrier tracks none, so what lies here was granted to nobody by a late copy; it is replaced
local blocked = h[1] and notGranting(ARGV[11])
if blocked then return {6, blocked} end
local made = grant(KEYS[1], KEYS[2], {owner, carrier, ARGV[3], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]})
if KEYS[3] and made[1] == 1 then fairQueue(3).granted(owner, ARGV[6], ARGV[13], ARGV[14]) end
return made
