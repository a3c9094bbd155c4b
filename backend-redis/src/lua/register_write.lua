-- KEYS 1 register  hash  token, version (20 digits each), value
-- ARGV 1 value   2 token, 20 digits   3 expected version, 20 digits; zeros: none
-- Answers {0, version} when written, {1, stored token} when the token is stale, {2, stored version} on a conflict.
--
-- Tokens and versions are compared as text: Lua numbers are doubles, and a token has up to 63 bits.
local call = redis.call
local NONE = '00000000000000000000'
local stored = call('HMGET', KEYS[1], 'token', 'version')
local token, version = stored[1] or NONE, stored[2] or NONE
if ARGV[2] < token then return {1, token} end
if version ~= ARGV[3] then return {2, version} end

-- One more than the last, or the time in units of 100 us since 2020 when that is more: no version comes twice, not even
-- after the data was lost.
local time = call('TIME')
local n = math.max(version + 1, (time[1] - 1577836800) * 10000 + math.floor(time[2] / 100))
if n > 9007199254740991 then error('the version of ' .. KEYS[1] .. ' is beyond 2^53, delete it') end
version = string.format('%020.0f', n)
call('HSET', KEYS[1], 'token', ARGV[2], 'version', version, 'value', ARGV[1])
return {0, version}
