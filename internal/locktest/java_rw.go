package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// JavaRW acts like a thread of a Java service that uses Redisson's read-write lock. Its scripts do
// to Redis what Redisson's scripts do.
type JavaRW struct {
	T     testing.TB
	Rdb   redis.UniversalClient
	Key   string
	Owner string
}

// NewJavaRW returns a thread of Redisson that uses a READ/WRITE lock.
func NewJavaRW(t testing.TB, rdb redis.UniversalClient, key, thread string) *JavaRW {
	return &JavaRW{t, rdb, key, "157ddcf5-0cc2-445d-bdea-98160a459bd5:" + thread}
}

// Run runs a script. It returns nil for Lua's nil.
func (j *JavaRW) Run(source string, keys []string, args ...any) any {
	j.T.Helper()
	reply, err := j.Rdb.Eval(context.Background(), source, keys, args...).Result()
	if err != nil && err != redis.Nil {
		j.T.Fatalf("java: %v", err)
	}
	return reply
}

// Timeouts is the prefix of the keys that say how long the thread's reads last.
func (j *JavaRW) Timeouts() string { return script.SuffixName(j.Key, j.Owner+":rwlock_timeout") }

// Read tries to acquire the read lock and reports whether it did.
func (j *JavaRW) Read(lease time.Duration) bool {
	j.T.Helper()
	return j.Took(j.Run(`
		local mode = redis.call('HGET', KEYS[1], 'mode')
		if mode and mode ~= 'read' and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then return redis.call('PTTL',
			KEYS[1]) end
		if not mode then
			redis.call('HSET', KEYS[1], 'mode', 'read')
			redis.call('HSET', KEYS[1], ARGV[2], 1)
			redis.call('SET', KEYS[2] .. ':1', 1, 'PX', ARGV[1])
			redis.call('PEXPIRE', KEYS[1], ARGV[1])
			return nil
		end
		local i = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
		redis.call('SET', KEYS[2] .. ':' .. i, 1, 'PX', ARGV[1])
		redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[1]))
		return nil`, []string{j.Key, j.Timeouts()}, lease.Milliseconds(), j.Owner, j.Owner+":write"))
}

// Write tries to acquire the write lock and reports whether it did.
func (j *JavaRW) Write(lease time.Duration) bool {
	j.T.Helper()
	return j.Took(j.Run(`
		local mode = redis.call('HGET', KEYS[1], 'mode')
		if not mode then
			redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[2], 1)
			redis.call('PEXPIRE', KEYS[1], ARGV[1])
			return nil
		end
		if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
			redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
			redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) + ARGV[1])
			return nil
		end
		return redis.call('PTTL', KEYS[1])`, []string{j.Key}, lease.Milliseconds(), j.Owner+":write"))
}

// Took reads the reply of an acquire. Nil means acquired. A number is the time until the lock may
// be free.
func (j *JavaRW) Took(reply any) bool {
	j.T.Helper()
	if left, taken := reply.(int64); taken && left <= 0 {
		j.T.Fatalf("java would wait for %d ms", left)
	}
	return reply == nil
}

// RenewReads is one round of Redisson's watchdog for read locks. It sets the TTL of the lock
// and ignores other readers.
func (j *JavaRW) RenewReads(ttl time.Duration) {
	j.T.Helper()
	j.Run(`
		local n = redis.call('HGET', KEYS[1], ARGV[2])
		if not n then return 0 end
		for i = n, 1, -1 do redis.call('PEXPIRE', KEYS[2] .. ':' .. i, ARGV[1]) end
		redis.call('PEXPIRE', KEYS[1], ARGV[1])
		return 1`, []string{j.Key, j.Timeouts()}, ttl.Milliseconds(), j.Owner)
}

// Unread releases the read lock. It returns nil if the thread does not hold it.
func (j *JavaRW) Unread() any {
	j.T.Helper()
	return j.Run(`
		local mode = redis.call('HGET', KEYS[1], 'mode')
		if not mode then redis.call('PUBLISH', KEYS[2], '0') return nil end
		if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return nil end
		local n = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
		if n == 0 then redis.call('HDEL', KEYS[1], ARGV[1]) end
		redis.call('DEL', KEYS[3] .. ':' .. (n + 1))
		if redis.call('HLEN', KEYS[1]) > 1 then
			local most = -3
			for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
				local count = tonumber(redis.call('HGET', KEYS[1], field))
				for i = count or 0, 1, -1 do most = math.max(most,
					redis.call('PTTL', KEYS[4] .. ':' .. field .. ':rwlock_timeout:' .. i)) end
			end
			if most > 0 then redis.call('PEXPIRE', KEYS[1], most) return 0 end
			if mode == 'write' then return 0 end
		end
		redis.call('DEL', KEYS[1])
		redis.call('PUBLISH', KEYS[2], '0')
		return 1`, []string{j.Key, script.RWChannel(j.Key), j.Timeouts(), script.SuffixName(j.Key, "")[:len(script.SuffixName(j.Key, ""))-1]}, j.Owner)
}

// Unwrite releases the write lock. It returns nil if the thread does not hold it.
func (j *JavaRW) Unwrite() any {
	j.T.Helper()
	return j.Run(`
		local mode = redis.call('HGET', KEYS[1], 'mode')
		if not mode then redis.call('PUBLISH', KEYS[2], '1') return nil end
		if mode ~= 'write' or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
		if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) return 0 end
		redis.call('HDEL', KEYS[1], ARGV[2])
		if redis.call('HLEN', KEYS[1]) == 1 then
			redis.call('DEL', KEYS[1])
			redis.call('PUBLISH', KEYS[2], '1')
		else redis.call('HSET', KEYS[1], 'mode', 'read') end
		return 1`, []string{j.Key, script.RWChannel(j.Key)}, 30_000, j.Owner+":write")
}

// In checks that an acquire succeeded. out checks that one did not.
func (j *JavaRW) In(ok bool) {
	j.T.Helper()
	if !ok {
		j.T.Fatal("java did not get in")
	}
}

// Out fails if the thread got the lock.
func (j *JavaRW) Out(ok bool) {
	j.T.Helper()
	if ok {
		j.T.Fatal("java got in")
	}
}
