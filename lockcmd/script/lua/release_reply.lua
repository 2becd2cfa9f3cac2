-- release_reply.lua follows the prelude in the scripts that release a hold in the name of its
-- carrier. It uses the ARGV of release.lua.

-- replyUnlessEnds returns the reply of a request that does not end a hold with n counts: of one
-- that was done before, of a late copy, or of one that takes a count back. In the last case takes
-- is true, and the caller must take the count back and write the record. Otherwise it returns nil.
local function replyUnlessEnds(r, n)
  local last, req = tonumber(r[REQ]), tonumber(ARGV[4])
  if last >= req then return last == req and tonumber(r[REPLY]) or -2, false end
  if n <= 1 or ARGV[5] == 'all' then return nil, false end
  r[REQ], r[REPLY], r[ID] = ARGV[4], '0', r[ID] ~= ARGV[5] and r[ID] or '-'
  return 0, true
end
