-- rw_make_room.lua follows rw.lua in rw_restore.lua.

-- makeRoom removes the holds that had ended before the hold of that owner and token, which is to
-- be in field. It returns the mode of the lock with that hold, or nil if another hold keeps it out.
local function makeRoom(key, leash, field, owner, mine)
  local stale, kept, writes = {}, nil, MINE == 'write'
  for _, other in ipairs(redis.call('HKEYS', key)) do
    local own, writer = other == owner or other == owner .. ':write', string.sub(other, -6) == ':write'
    local n = other ~= 'mode' and tonumber(redis.call('HGET', key, other))
    local r = n and parse(redis.call('HGET', leash, other))
    if n and other ~= field and own then
      if writer and renewed(r[OPTS]) then kept = {other, extendUntil(r, holdLeft(key, leash, other, n))} end
      writes = writes or writer
    elseif n and (other == field or MINE == 'write' or writer) and holdLeft(key, leash, other, n) > 0 then
      if not r[TOKEN] or tonumber(r[TOKEN]) > tonumber(mine) then return nil end
      if other ~= field then stale[#stale + 1] = other end
    end
  end
  if kept then redis.call('HSET', leash, kept[1], record(kept[2])) end
  for _, other in ipairs(stale) do
    for _, k in ipairs({key, leash}) do redis.call('HDEL', k, other) end
  end
  return writes and 'write' or 'read'
end
