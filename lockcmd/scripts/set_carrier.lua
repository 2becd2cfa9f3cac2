-- set_carrier.lua stands behind the prelude of the scripts that move a hold to another carrier.

-- hang makes r the record of a hold that hangs on that carrier from now on, and counts how often it was moved: where a master that was promoted
-- has a hold in an older state, that tells the later carrier (restore.go).
local function setCarrier(r, carrier, req, client)
  local moves = tonumber((string.match(r[EXT], 'moves=(%d+)'))) or 0
  r[CARRIER], r[REQ], r[REPLY], r[EXT], r[CLIENT] = carrier, req, r[TOKEN], setPair(r[EXT], 'moves', moves + 1), client
  return record(r)
end
