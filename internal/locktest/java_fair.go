package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// JavaFair acts on Redis like a thread of a Java program that uses a RedissonFairLock.
type JavaFair struct {
	T          testing.TB
	Rdb        redis.UniversalClient
	Key, Owner string
	Wait       time.Duration // added to the scores of waiters
	Lease      time.Duration
}

// NewJavaFair returns a thread of Redisson that uses a fair lock.
func NewJavaFair(t testing.TB, rdb redis.UniversalClient, key, owner string) *JavaFair {
	return &JavaFair{T: t, Rdb: rdb, Key: key, Owner: owner, Wait: 300 * time.Second, Lease: 30 * time.Second}
}

// Each script has these arguments. KEYS: 1 the lock, 2 the queue, 3 the timeouts. ARGV: 1 owner, 2
// lease, 3 wait, 4 the client's clock in ms, 5 channel.
const (
	JavaReap = `
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
	JavaTake = JavaReap + `
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
	JavaTryLock = JavaTake + `return 1`
	JavaLock    = JavaTake + `
if redis.call('ZSCORE', KEYS[3], ARGV[1]) then return math.max(0, redis.call('PTTL', KEYS[1])) end
local last = redis.call('LINDEX', KEYS[2], -1)
local score = last and last ~= ARGV[1] and redis.call('ZSCORE', KEYS[3], last)
local left = score and tonumber(score) - tonumber(ARGV[4]) or redis.call('PTTL', KEYS[1])
if redis.call('ZADD', KEYS[3], left + ARGV[3] + ARGV[4], ARGV[1]) == 1 then redis.call('RPUSH', KEYS[2], ARGV[1]) end
return left`
	JavaGiveUp = `
local behind = false
for _, other in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
  if behind then redis.call('ZINCRBY', KEYS[3], -ARGV[3], other) end
  behind = behind or other == ARGV[1]
end
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('LREM', KEYS[2], 0, ARGV[1])
return 1`
	JavaUnlock = JavaReap + `
if redis.call('EXISTS', KEYS[1]) == 0 then tell() return 1 end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 0 end
redis.call('DEL', KEYS[1])
tell()
return 1`
	JavaForceUnlock = JavaReap + `
if redis.call('DEL', KEYS[1]) == 0 then return 0 end
tell()
return 1`
)

// Run runs one of the scripts. null reports a nil reply.
func (j *JavaFair) Run(source string) (n int64, null bool) {
	j.T.Helper()
	n, err := j.Rdb.Eval(context.Background(), source, append([]string{j.Key}, script.QueueKeys(j.Key)[:2]...),
		j.Owner, j.Lease.Milliseconds(), j.Wait.Milliseconds(), time.Now().UnixMilli(),
		script.LockChannel(j.Key)).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		j.T.Fatalf("java: %v", err)
	}
	return n, err != nil
}

// TryLock is tryLock() without a wait.
func (j *JavaFair) TryLock() bool {
	j.T.Helper()
	_, null := j.Run(JavaTryLock)
	return null
}

// Attempt is one attempt of lock() or tryLock(wait). It adds the thread to the queue.
func (j *JavaFair) Attempt() (got bool) {
	j.T.Helper()
	_, null := j.Run(JavaLock)
	return null
}

// GiveUp takes the thread out of the queue, as Redisson does after a timeout.
func (j *JavaFair) GiveUp() { j.T.Helper(); j.Run(JavaGiveUp) }

// Unlock releases the lock.
func (j *JavaFair) Unlock() {
	j.T.Helper()
	if n, null := j.Run(JavaUnlock); null || n != 1 {
		j.T.Fatalf("java: unlock: got %d, %v", n, null)
	}
}

// Lock is lock(). It waits on its own channel, and no longer than the script says. The returned
// channel gets the time of the grant.
func (j *JavaFair) Lock() <-chan time.Time {
	j.T.Helper()
	got := make(chan time.Time, 1)
	sub := j.Rdb.Subscribe(context.Background(), script.LockChannel(j.Key)+":"+j.Owner)
	if _, err := sub.Receive(context.Background()); err != nil {
		j.T.Fatal(err)
	}
	left, null := j.Run(JavaLock)
	go func() {
		defer sub.Close()
		for !null {
			select {
			case <-sub.Channel():
			case <-time.After(time.Duration(left) * time.Millisecond):
			case <-j.T.Context().Done():
				return
			}
			left, null = j.Run(JavaLock)
		}
		got <- time.Now()
	}()
	return got
}

// FairOrder returns the waiters in a FAIR lock's queue, in order.
func FairOrder(rdb redis.UniversalClient, key string) []string {
	return rdb.LRange(context.Background(), script.QueueKeys(key)[0], 0, -1).Val()
}

// FairScore returns a waiter's score in Redisson's zset in ms, or 0 if it has none.
func FairScore(rdb redis.UniversalClient, key, owner string) int64 {
	return int64(rdb.ZScore(context.Background(), script.QueueKeys(key)[1], owner).Val())
}
