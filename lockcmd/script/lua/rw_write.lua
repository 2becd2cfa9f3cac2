-- rw_write.lua makes a script one for WRITE holds, as rw_read.lua does for READ holds.
local MINE, SUFFIX, WORD, AFTER = 'write', ':write', '1', 3
