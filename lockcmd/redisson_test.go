package lockcmd

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// javaFair acts on Redis like a thread of a Java program that uses a RedissonFairLock.
type javaFair struct {
	t          testing.TB
	rdb        redis.UniversalClient
	key, owner string
	wait       time.Duration // added to the scores of waiters
	lease      time.Duration
}

func java(t testing.TB, rdb redis.UniversalClient, key, owner string) *javaFair {
	return &javaFair{t: t, rdb: rdb, key: key, owner: owner, wait: 300 * time.Second, lease: 30 * time.Second}
}

// Each script has these arguments. KEYS: 1 the lock, 2 the queue, 3 the timeouts. ARGV: 1 owner, 2
// lease, 3 wait, 4 the client's clock in ms, 5 channel.
const (
	javaReap = `
local function reap()
  while true do
    local first = redis.call('LINDEX', KEYS[2], 0)
    local score = first and redis.call('ZSCORE', KEYS[3], first)
    if not score or tonumber(score) > tonumber(ARGV[4]) then return end
    redis.call('ZREM', KEYS[3], first)
    redis.call('LPOP', KEYS[2])
  end
end
local function tell()
  local first = redis.call('LINDEX', KEYS[2], 0)
  if first then redis.call('PUBLISH', ARGV[5] .. ':' .. first, '0') end
end
reap()
`
	javaTake = javaReap + `
local first = redis.call('LINDEX', KEYS[2], 0)
if redis.call('EXISTS', KEYS[1]) == 0 and (not first or first == ARGV[1]) then
  redis.call('LPOP', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[1])
  for _, other in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do redis.call('ZINCRBY', KEYS[3], -ARGV[3], other) end
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return false
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return false
end
`
	javaTryLock = javaTake + `return 1`
	javaLock    = javaTake + `
if redis.call('ZSCORE', KEYS[3], ARGV[1]) then return math.max(0, redis.call('PTTL', KEYS[1])) end
local last = redis.call('LINDEX', KEYS[2], -1)
local score = last and last ~= ARGV[1] and redis.call('ZSCORE', KEYS[3], last)
local left = score and tonumber(score) - tonumber(ARGV[4]) or redis.call('PTTL', KEYS[1])
if redis.call('ZADD', KEYS[3], left + ARGV[3] + ARGV[4], ARGV[1]) == 1 then redis.call('RPUSH', KEYS[2], ARGV[1]) end
return left`
	javaGiveUp = `
local behind = false
for _, other in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
  if behind then redis.call('ZINCRBY', KEYS[3], -ARGV[3], other) end
  behind = behind or other == ARGV[1]
end
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('LREM', KEYS[2], 0, ARGV[1])
return 1`
	javaUnlock = javaReap + `
if redis.call('EXISTS', KEYS[1]) == 0 then tell() return 1 end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 0 end
redis.call('DEL', KEYS[1])
tell()
return 1`
	javaForceUnlock = javaReap + `
if redis.call('DEL', KEYS[1]) == 0 then return 0 end
tell()
return 1`
)

// run runs one of the scripts. null reports a nil reply.
func (j *javaFair) run(source string) (n int64, null bool) {
	j.t.Helper()
	n, err := j.rdb.Eval(context.Background(), source, append([]string{j.key}, script.QueueKeys(j.key)[:2]...),
		j.owner, j.lease.Milliseconds(), j.wait.Milliseconds(), time.Now().UnixMilli(),
		script.LockChannel(j.key)).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		j.t.Fatalf("java: %v", err)
	}
	return n, err != nil
}

// tryLock is tryLock() without a wait.
func (j *javaFair) tryLock() bool {
	j.t.Helper()
	_, null := j.run(javaTryLock)
	return null
}

// attempt is one attempt of lock() or tryLock(wait). It adds the thread to the queue.
func (j *javaFair) attempt() (got bool) {
	j.t.Helper()
	_, null := j.run(javaLock)
	return null
}

func (j *javaFair) giveUp() { j.t.Helper(); j.run(javaGiveUp) }

func (j *javaFair) unlock() {
	j.t.Helper()
	if n, null := j.run(javaUnlock); null || n != 1 {
		j.t.Fatalf("java: unlock: got %d, %v", n, null)
	}
}

// lock is lock(). It waits on its own channel, and no longer than the script says. The returned
// channel gets the time of the grant.
func (j *javaFair) lock() <-chan time.Time {
	j.t.Helper()
	got := make(chan time.Time, 1)
	sub := j.rdb.Subscribe(context.Background(), script.LockChannel(j.key)+":"+j.owner)
	if _, err := sub.Receive(context.Background()); err != nil {
		j.t.Fatal(err)
	}
	left, null := j.run(javaLock)
	go func() {
		defer sub.Close()
		for !null {
			select {
			case <-sub.Channel():
			case <-time.After(time.Duration(left) * time.Millisecond):
			case <-j.t.Context().Done():
				return
			}
			left, null = j.run(javaLock)
		}
		got <- time.Now()
	}()
	return got
}

// order returns the waiters in a FAIR lock's queue, in order.
func order(rdb redis.UniversalClient, key string) []string {
	return rdb.LRange(context.Background(), script.QueueKeys(key)[0], 0, -1).Val()
}

// score returns a waiter's score in Redisson's zset in ms, or 0 if it has none.
func score(rdb redis.UniversalClient, key, owner string) int64 {
	return int64(rdb.ZScore(context.Background(), script.QueueKeys(key)[1], owner).Val())
}

// waitFair starts an ACQUIRE with FAIR that waits. It returns when the waiter is the n-th in the
// queue.
func (c *conn) waitFair(rdb redis.UniversalClient, n int, key string, options ...string) <-chan string {
	c.t.Helper()
	reply := c.start(append([]string{"LOCK.ACQUIRE", key, "FAIR"}, options...)...)
	eventually(c.t, 5*time.Second, "the waiter is in the queue", func() bool { return len(order(rdb, key)) >= n })
	return reply
}

// wantNothingLeft checks that nothing of a lock is left in Redis but its token counter.
func wantNothingLeft(t testing.TB, rdb redis.UniversalClient, key string) {
	t.Helper()
	for _, k := range append(script.QueueKeys(key), key) {
		eventually(t, 2*time.Second, k+" is gone", func() bool { return !exists(t, rdb, k) })
	}
}

func owners(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "me:" + strconv.Itoa(i)
	}
	return names
}

func TestR22ScoresAreRedissons(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, name := leash(t, rdb, Config{}), newKey(), owners(4)
		holder := connect(t, s)
		began := time.Now().UnixMilli()
		holder.token(key, "OWNER", name[0])
		granted := time.Now().UnixMilli()
		first := connect(t, s).waitFair(rdb, 1, key, "BLOCK", "0", "OWNER", name[1])
		j := java(t, rdb, key, "java:1")
		if j.attempt() {
			t.Fatal("java got a lock that is held")
		}
		a, b := connect(t, s), connect(t, s)
		second := a.waitFair(rdb, 3, key, "BLOCK", "0", "OWNER", name[2])
		third := b.waitFair(rdb, 4, key, "BLOCK", "0", "OWNER", name[3])
		one := score(rdb, key, name[1])
		if one < began+330000-100 || one > granted+330000+100 {
			t.Errorf("got score %d of the first, want %d: the rest of the lease and 300 s", one, granted+330000)
		}
		for i, who := range []string{"java:1", name[2], name[3]} {
			if got, want := score(rdb, key, who), one+int64(i+1)*300000; got != want {
				t.Errorf("got score %d of %s, want %d", got, who, want)
			}
		}
		want(t, holder.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, first, 3*time.Second))
		// a waiter that gets the lock takes its 300 s off the scores behind it
		for i, who := range []string{"java:1", name[2], name[3]} {
			if got, want := score(rdb, key, who), one+int64(i)*300000; got != want {
				t.Errorf("got score %d of %s, want %d", got, who, want)
			}
		}
		a.gone() // so does a waiter that gives up
		wantPrefix(t, receive(t, second, 3*time.Second), "-LOCKTIMEOUT")
		eventually(t, 3*time.Second, "it has left", func() bool { return len(order(rdb, key)) == 2 })
		if one, three := score(rdb, key, "java:1"), score(rdb, key, name[3]); three != one+300000 {
			t.Errorf("got scores %d and %d, want 300000 between", one, three)
		}
		j.giveUp() // Java learns nothing of the others
		if got := score(rdb, key, name[3]); got != one {
			t.Errorf("got score %d of the last, want %d", got, one)
		}
		b.gone()
		receive(t, third, 3*time.Second)
		eventually(t, 3*time.Second, "the queue is gone", func() bool {
			return !exists(t, rdb, script.QueueKeys(key)[0])
		})
	})
}

func TestR22JavaAndLeashServeInOrder(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		first := java(t, rdb, key, "java:0")
		if !first.tryLock() {
			t.Fatal("java did not get a free lock")
		}
		a, c := connect(t, s), connect(t, s)
		mine := a.waitFair(rdb, 1, key, "BLOCK", "0")
		second := java(t, rdb, key, "java:1")
		javas := second.lock()
		last := c.waitFair(rdb, 3, key, "BLOCK", "0")
		want(t, connect(t, s).do("LOCK.ACQUIRE", key, "FAIR"), "$-1")

		first.unlock()
		tokenOf(t, woken(t, mine))
		if len(javas)+len(last) != 0 {
			t.Fatal("two holders")
		}
		began := time.Now()
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if took := receive(t, javas, 5*time.Second).Sub(began); took > soon {
			t.Errorf("our release woke Java after %v", took)
		}
		if len(last) != 0 {
			t.Fatal("two holders")
		}
		second.unlock()
		tokenOf(t, receive(t, last, 5*time.Second))
		if java(t, rdb, key, "java:2").tryLock() {
			t.Fatal("two holders")
		}
		want(t, c.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)
	})
}
