package lockcmd

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// javaRW acts like a thread of a Java service that uses Redisson's read-write lock. Its scripts do
// to Redis what Redisson's scripts do.
type javaRW struct {
	t     testing.TB
	rdb   redis.UniversalClient
	key   string
	owner string
}

func newJavaRW(t testing.TB, rdb redis.UniversalClient, key, thread string) *javaRW {
	return &javaRW{t, rdb, key, "157ddcf5-0cc2-445d-bdea-98160a459bd5:" + thread}
}

// run runs a script. It returns nil for Lua's nil.
func (j *javaRW) run(source string, keys []string, args ...any) any {
	j.t.Helper()
	reply, err := j.rdb.Eval(context.Background(), source, keys, args...).Result()
	if err != nil && err != redis.Nil {
		j.t.Fatalf("java: %v", err)
	}
	return reply
}

func (j *javaRW) timeouts() string { return script.SuffixName(j.key, j.owner+":rwlock_timeout") }

// read tries to acquire the read lock and reports whether it did.
func (j *javaRW) read(lease time.Duration) bool {
	j.t.Helper()
	return j.took(j.run(`
		local mode = redis.call('HGET', KEYS[1], 'mode')
		if mode and mode ~= 'read' and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then return redis.call('PTTL', KEYS[1]) end
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
		return nil`, []string{j.key, j.timeouts()}, lease.Milliseconds(), j.owner, j.owner+":write"))
}

// write tries to acquire the write lock and reports whether it did.
func (j *javaRW) write(lease time.Duration) bool {
	j.t.Helper()
	return j.took(j.run(`
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
		return redis.call('PTTL', KEYS[1])`, []string{j.key}, lease.Milliseconds(), j.owner+":write"))
}

// took reads the reply of an acquire. Nil means acquired. A number is the time until the lock may
// be free.
func (j *javaRW) took(reply any) bool {
	j.t.Helper()
	if left, taken := reply.(int64); taken && left <= 0 {
		j.t.Fatalf("java would wait for %d ms", left)
	}
	return reply == nil
}

// renewReads is one round of Redisson's watchdog for read locks. It sets the TTL of the lock
// and ignores other readers.
func (j *javaRW) renewReads(ttl time.Duration) {
	j.t.Helper()
	j.run(`
		local n = redis.call('HGET', KEYS[1], ARGV[2])
		if not n then return 0 end
		for i = n, 1, -1 do redis.call('PEXPIRE', KEYS[2] .. ':' .. i, ARGV[1]) end
		redis.call('PEXPIRE', KEYS[1], ARGV[1])
		return 1`, []string{j.key, j.timeouts()}, ttl.Milliseconds(), j.owner)
}

// unread releases the read lock. It returns nil if the thread does not hold it.
func (j *javaRW) unread() any {
	j.t.Helper()
	return j.run(`
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
				for i = count or 0, 1, -1 do most = math.max(most, redis.call('PTTL', KEYS[4] .. ':' .. field .. ':rwlock_timeout:' .. i)) end
			end
			if most > 0 then redis.call('PEXPIRE', KEYS[1], most) return 0 end
			if mode == 'write' then return 0 end
		end
		redis.call('DEL', KEYS[1])
		redis.call('PUBLISH', KEYS[2], '0')
		return 1`, []string{j.key, script.RWChannel(j.key), j.timeouts(), script.SuffixName(j.key, "")[:len(script.SuffixName(j.key, ""))-1]}, j.owner)
}

// unwrite releases the write lock. It returns nil if the thread does not hold it.
func (j *javaRW) unwrite() any {
	j.t.Helper()
	return j.run(`
		local mode = redis.call('HGET', KEYS[1], 'mode')
		if not mode then redis.call('PUBLISH', KEYS[2], '1') return nil end
		if mode ~= 'write' or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
		if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) return 0 end
		redis.call('HDEL', KEYS[1], ARGV[2])
		if redis.call('HLEN', KEYS[1]) == 1 then
			redis.call('DEL', KEYS[1])
			redis.call('PUBLISH', KEYS[2], '1')
		else redis.call('HSET', KEYS[1], 'mode', 'read') end
		return 1`, []string{j.key, script.RWChannel(j.key)}, 30_000, j.owner+":write")
}

// in checks that an acquire succeeded. out checks that one did not.
func (j *javaRW) in(ok bool) {
	j.t.Helper()
	if !ok {
		j.t.Fatal("java did not get in")
	}
}

func (j *javaRW) out(ok bool) {
	j.t.Helper()
	if ok {
		j.t.Fatal("java got in")
	}
}

func TestReadWriteWithRedisson(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, j, k := connect(t, s), newJavaRW(t, rdb, key, "1"), newJavaRW(t, rdb, key, "2")

		// readers share the lock, Java or Leash first
		j.in(j.read(30 * time.Second))
		a.token(key, "READ", "OWNER", "me")
		a.token(key, "READ", "OWNER", "me")
		k.in(k.read(30 * time.Second))
		k.out(k.write(30 * time.Second))
		want(t, a.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		if j.unread() != int64(0) || k.unread() != int64(0) {
			t.Error("java's release did not see the others")
		}
		k.out(k.write(30 * time.Second))
		want(t, a.do("LOCK.RELEASE", key), ":0")
		j.in(j.read(30 * time.Second))
		want(t, a.do("LOCK.RELEASE", key), ":1")
		want(t, a.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		if j.unread() != int64(1) || exists(t, rdb, key) {
			t.Error("the lock is still there")
		}

		// writers exclude each other
		a.token(key, "WRITE", "OWNER", "me")
		a.token(key, "WRITE", "OWNER", "me")
		j.out(j.write(30 * time.Second))
		j.out(j.read(30 * time.Second))
		want(t, a.do("LOCK.RELEASE", key), ":0")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		j.in(j.write(30 * time.Second))
		want(t, a.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		want(t, a.do("LOCK.ACQUIRE", key, "READ"), "$-1")
		j.in(j.read(30 * time.Second)) // Java downgrades
		if j.unwrite() != int64(1) {
			t.Error("java could not release")
		}
		a.token(key, "READ")
		want(t, a.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		if j.unread() != int64(0) {
			t.Error("java's release did not see ours")
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")

		// Leash downgrades
		a.token(key, "WRITE", "OWNER", "me")
		a.token(key, "READ", "OWNER", "me")
		j.out(j.read(30 * time.Second))
		want(t, a.do("LOCK.RELEASE", key, "WRITE"), ":1")
		j.in(j.read(30 * time.Second))
		k.out(k.write(30 * time.Second))
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if j.unread() != int64(1) {
			t.Error("java's was not the last")
		}
		if n := rdb.Exists(context.Background(), key, script.RecordsKey(key)).Val(); n != 0 || len(a.losses) != 0 {
			t.Errorf("%d keys are left, %d losses", n, len(a.losses))
		}
	})
}
