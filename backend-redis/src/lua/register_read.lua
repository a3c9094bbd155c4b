-- KEYS as in register_write.lua. Reads only.
-- Answers {value, token, version}, or nothing when it was never written.
local stored = redis.call('HMGET', KEYS[1], 'value', 'token', 'version')
return stored[1] and stored
