-- ARGV 1 owner
-- Answers 1 when the owner held the lock, 2 when it waited, 0 when it had nothing. A lock that is free afterwards goes
-- to the queue.
local me = ARGV[1]
local holder, had = pcall('GET', KEYS[1]), 0
if holder == me then
  -- Deleted before it is given away: a server that is out of memory lets a script write once it has freed something.
  call('DEL', KEYS[1])
  had = 1
else
  if call('HDEL', KEYS[4], me) == 1 then
    call('LREM', KEYS[3], 1, me)
    had = 2
  end
  -- Somebody else's, also when it is no string and GET failed.
  if holder then return had end
end
hand_over(nil, nil)
return had
