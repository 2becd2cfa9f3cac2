-- rw_read.lua makes a script one for READ holds. MINE is the lock's mode then, SUFFIX follows the owner in the name of a hold's field, WORD
-- is what a release that frees the lock says on its channel.
local MINE, SUFFIX, WORD = 'read', '', '0'
