-- undo_rights.lua is put before acquire.lua when the command has REPLICAS. The grant is then undone
-- if too few replicas have it. So the user must have the rights for touch.lua, WAIT and undo.lua.
needs('WAIT', 'HMGET', 'PTTL', 'PEXPIRE', 'HINCRBY', 'HSET', 'DEL')
