-- KEYS as in grant.lua. Reads only.
-- Answers nothing when the lock is free, else {holder or '', PTTL, record, waiters, seconds, microseconds}.
local holder = redis.pcall('GET', KEYS[1])
if not holder then return false end
local time = redis.call('TIME')
if type(holder) ~= 'string' then holder = '' end
local record = redis.pcall('GET', KEYS[2])
if type(record) ~= 'string' then record = '' end
local waiters = redis.pcall('LLEN', KEYS[3])
if type(waiters) ~= 'number' then waiters = 0 end
return {holder, redis.call('PTTL', KEYS[1]), record, waiters, time[1], time[2]}
