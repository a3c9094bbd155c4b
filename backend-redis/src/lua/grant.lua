-- Shared by acquire.lua and release.lua, which are this file and their own.
--
-- KEYS 1 lock   string  owner of the holder, with PX: the key that every SET NX PX client reads and respects
--      2 token  string  "token owner seconds microseconds origin label" of the last grant
--      3 queue  list    owners of those who wait, first come first
--      4 meta   hash    owner -> "ttl last_seen channel request origin label"
--
-- A token is 20 digits, compared as text: Lua numbers are doubles, and tostring() loses digits above 1e14.

local call, pcall = redis.call, redis.pcall
local LARGEST = 9007199254740991  -- 2^53 - 1: beyond it adding one changes nothing
local MONTH = '2592000000'        -- ms; a counter unused for so long may go, the clock keeps tokens rising
local LOOKS = 64                  -- entries looked at in one call
local GRACE = 1000                -- ms that an entry stays at least, whatever its ttl

-- The next token: one more than the last, or the time in units of 100 us since 2020 when that is more. So tokens also
-- rise after the counter was lost.
local function draw(time)
  local n = math.max(1, (time[1] - 1577836800) * 10000 + math.floor(time[2] / 100))
  local token = string.format('%020.0f', n)
  local last = call('GET', KEYS[2])
  if last then
    last = string.sub(last, 1, 20)
    if last >= token then
      n = last + 1
      if n > LARGEST then error('the token counter ' .. KEYS[2] .. ' is beyond 2^53, delete it') end
      token = string.format('%020.0f', n)
    end
  end
  return token
end

local function record(token, owner, time, text)
  call('SET', KEYS[2], token .. ' ' .. owner .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. text, 'PX', MONTH)
end

-- Gives the free lock to the first in the queue who can be told, and answers its owner and token; otherwise nil and how
-- many were passed over. `asking` is told by the answer of this call. Who cannot be told at the moment keeps its place:
-- its client may be reconnecting.
local function hand_over(time, asking)
  local token, at = nil, 0
  for _ = 1, LOOKS do
    local owner = call('LINDEX', KEYS[3], at)
    if not owner then break end
    time = time or call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local entry = call('HGET', KEYS[4], owner) or ''
    local ttl, seen, channel, request, text = string.match(entry, '^(%d+) (%d+) (%S+) (%d+) (.*)$')
    if not ttl or (owner ~= asking and now - seen > math.max(ttl, GRACE)) then
      call('LREM', KEYS[3], 1, owner)
      call('HDEL', KEYS[4], owner)
    else
      token = token or draw(time)
      local told = owner == asking
        or pcall('PUBLISH', channel, owner .. ' ' .. token .. ' ' .. request .. ' ' .. KEYS[1])
      if told == true or (type(told) == 'number' and told > 0) then
        call('LREM', KEYS[3], 1, owner)
        call('HDEL', KEYS[4], owner)
        call('SET', KEYS[1], owner, 'PX', ttl)
        record(token, owner, time, text)
        return owner, token
      end
      at = at + 1
    end
  end
  return nil, at
end
