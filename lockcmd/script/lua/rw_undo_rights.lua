-- rw_undo_rights.lua is to rw_acquire.lua what undo_rights.lua is to acquire.lua.
needs('WAIT', 'HMGET', 'HGET', 'HGETALL', 'HLEN', 'TIME', 'PTTL', 'PEXPIRE', 'SET', 'HINCRBY', 'HSET', 'HDEL', 'DEL')
