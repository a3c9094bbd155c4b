-- KEYS as in grant.lua   ARGV 1 how long the name must have been unused, in ms   2 "1": remove, else only look
-- Answers 0 nothing is kept, 1 in use, 2 used since, 3 unused, and removed if asked for.
local call, pcall = redis.call, redis.pcall
if call('EXISTS', KEYS[1]) == 1 then return 1 end
local waiting = pcall('LLEN', KEYS[3])
if type(waiting) ~= 'number' or waiting > 0 then return 1 end
local record = pcall('GET', KEYS[2])
if not record then return 0 end
if type(record) ~= 'string' then return 1 end
local token, seconds, micros = string.match(record, '^(%d+) %S+ (%d+) (%d+) ')
if not token then return 1 end
local time = call('TIME')
local age = (time[1] - seconds) * 1000 + math.floor((time[2] - micros) / 1000)
-- The clock carries on where the counter ends, and only if it is past it: else the next token would be a smaller one.
local clock = string.format('%020.0f', (time[1] - 1577836800) * 10000 + math.floor(time[2] / 100))
if age < tonumber(ARGV[1]) or token >= clock then return 2 end
if ARGV[2] == '1' then call('DEL', KEYS[2], KEYS[3], KEYS[4]) end
return 3
