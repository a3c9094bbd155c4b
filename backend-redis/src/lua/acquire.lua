-- ARGV 1 owner   2 ttl in ms   3 origin and label
--      4 "channel request": where to be woken, and the number that tells which request was; empty: do not queue
-- Answers the token (text) when granted, the holder's PTTL (number) when busy, {PTTL, place} when queued.
local me, ttl, text, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if call('SET', KEYS[1], me, 'NX', 'PX', ttl) then
  -- It was free. Who waits comes first, also when its holder has just expired.
  local time = call('TIME')
  local owner, result = hand_over(time, me)
  if not owner then
    local token = draw(time)
    record(token, me, time, text)
    if result > 0 and call('HDEL', KEYS[4], me) == 1 then call('LREM', KEYS[3], 1, me) end
    return token
  end
  if owner == me then return result end
else
  local holder = pcall('GET', KEYS[1])
  if type(holder) == 'table' then return redis.error_reply('FOREIGN the lock key holds no string') end
  if holder == me then
    -- A repeat by the holder: the lease in full again, the same token.
    call('PEXPIRE', KEYS[1], ttl)
    local last = call('GET', KEYS[2])
    if last and string.sub(last, 22, 53) == me then return string.sub(last, 1, 20) end
    local time = call('TIME')
    local token = draw(time)
    record(token, me, time, text)
    return token
  end
end

local left = call('PTTL', KEYS[1])
if channel == '' then return left end

local time = call('TIME')
local entry = string.format('%s %.0f %s %s', ttl, time[1] * 1000 + math.floor(time[2] / 1000), channel, text)
local place
if call('HSET', KEYS[4], me, entry) == 1 then
  place = call('RPUSH', KEYS[3], me)
else
  local at = call('LPOS', KEYS[3], me)
  place = at and at + 1 or call('RPUSH', KEYS[3], me)
end
-- As long as an entry counts: a queue whose waiters have all died goes by itself, also when nobody asks for the name again.
local life = math.max(ttl, GRACE) + GRACE
if call('PTTL', KEYS[3]) < life then
  call('PEXPIRE', KEYS[3], string.format('%.0f', life))
  call('PEXPIRE', KEYS[4], string.format('%.0f', life))
end
return {left, place}
