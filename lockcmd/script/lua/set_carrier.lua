-- set_carrier.lua follows the prelude in scripts that move a hold to another carrier. It uses the
-- ARGV of move.lua.

-- isOfOldCarrier reports whether the record is still that of the carrier that the caller saw.
local function isOfOldCarrier(r) return r[CARRIER] == ARGV[3] and (ARGV[4] == '' or r[REQ] == ARGV[4]) end

-- setCarrier makes r the record of a hold that now belongs to the new carrier. It also counts the
-- moves. A promoted master may have an older state of the hold; the count tells which carrier is
-- the later one (restore.go).
local function setCarrier(r)
  local moves = tonumber((string.match(r[EXT], 'moves=(%d+)'))) or 0
  r[CARRIER], r[REQ], r[REPLY], r[EXT], r[CLIENT] = ARGV[6], ARGV[7], r[TOKEN], setPair(r[EXT], 'moves', moves + 1), ARGV[8]
  return record(r)
end

-- reportMove writes the old carrier's tombstone, whose index in KEYS is at. It removes the new
-- carrier's tombstone, whose index is at + 1, and sends the hold event.
local function reportMove(at, r)
  redis.call('SET', KEYS[at], ARGV[9], 'PX', wholeText(math.max(tonumber(ARGV[10]), tonumber(r[TTL]))))
  redis.call('DEL', KEYS[at + 1])
  if ARGV[11] ~= '' then redis.pcall('PUBLISH', ARGV[11], ARGV[12]) end
end
