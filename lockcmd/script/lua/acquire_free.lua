-- acquire_free.lua follows the prelude in acquire.lua, but not with FAIR. It grants a lock that
-- does not exist and that no Leash waits for. It comes before the parts for all other cases, so
-- that the usual acquire does not pay for making their functions.
if ARGV[4] == '0' and ARGV[11] == '' and redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  return grant(KEYS[1], KEYS[2], {ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]})
end
