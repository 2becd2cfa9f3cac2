-- rw_pass_others.lua follows turns.lua and rw_grant.lua in rw_acquire.lua. It uses the KEYS and
-- ARGV of that script.

-- passOthers looks at the other holds of a lock that is not free. h has the lock's mode, and the
-- owner's counts of READ and WRITE. If they keep the owner out, it returns the reply. Otherwise it
-- returns nil, whether only expired holds are left, and whether the owner has the lock with WRITE.
local function passOthers(key, leash, h, waits)
  local owner, reads = ARGV[1], tonumber(h[2] or 0) or 0
  local writes = h[3] and holdLeft(key, leash, owner .. ':write', 1) or 0
  if MINE == 'write' and reads > 0 and holdLeft(key, leash, owner, reads) > 0 then return {5} end
  if writes > 0 then
    local w = parse(redis.call('HGET', leash, owner .. ':write'))
    if w[CARRIER] ~= ARGV[2] then return {2, '', '', '-'} end
    needsForGrant()
    if renewed(w[OPTS]) then redis.call('HSET', leash, owner .. ':write', record(extendUntil(w, writes))) end
    return nil, false, true
  end
  if MINE == 'read' and h[1] == 'read' then return nil, false, false end
  local most, writing, writer = othersLeft(key, leash)
  if writing > 0 or MINE == 'write' and most > 0 then
    if waits then awaitTurn(KEYS[4], ARGV[12]) end
    return {0, most, (readInteger(KEYS[3]))}
  end
  if most > 0 and writer then
    needsForGrant()
    dropWriteHold(key, leash, writer)
  end
  return nil, most == 0, false
end
