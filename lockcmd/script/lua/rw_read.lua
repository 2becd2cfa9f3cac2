-- rw_read.lua makes a script one for READ holds. MINE is the mode of the lock. SUFFIX follows the
-- owner in the name of a hold's field. WORD is the message of a release that frees the lock.
-- The keys of a hold come before KEYS[AFTER].
local MINE, SUFFIX, WORD, AFTER = 'read', '', '0', 3
