-- KEYS 1 lock   ARGV 1 owner   2 ttl in ms
-- Answers 1 when the lease was restarted, 0 when the owner does not hold the lock.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
