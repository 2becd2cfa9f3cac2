-- set_carrier.lua follows the prelude in scripts that move a hold to another carrier.

-- setCarrier makes r the record of a hold that now belongs to that carrier. It also counts the
-- moves. A promoted master may have an older state of the hold; the count tells which carrier is
-- the later one (restore.go).
local function setCarrier(r, carrier, req, client)
  local moves = tonumber((string.match(r[EXT], 'moves=(%d+)'))) or 0
  r[CARRIER], r[REQ], r[REPLY], r[EXT], r[CLIENT] = carrier, req, r[TOKEN], setPair(r[EXT], 'moves', moves + 1), client
  return record(r)
end
