package lockcmd

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestReadersOfLocksWithOneTimeoutKey: Two locks can have one timeout key, if a colon of the one's
// name is in the other's owner. The end of one read hold does not end the other.
func TestReadersOfLocksWithOneTimeoutKey(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		for _, end := range []string{"release", "break"} {
			for _, swapped := range []bool{false, true} {
				key := newKey()
				lock, owner := key, "me:o"
				otherLock, otherOwner := "{"+key+"}:me", "o"
				if swapped {
					lock, owner, otherLock, otherOwner = otherLock, otherOwner, lock, owner
				}
				a, b, c := connect(t, s), connect(t, s), connect(t, s)
				for range 2 {
					a.token(lock, "READ", "OWNER", owner)
					b.token(otherLock, "READ", "OWNER", otherOwner)
				}
				want(t, b.do("LOCK.RELEASE", otherLock), ":0")
				if end == "release" {
					want(t, b.do("LOCK.RELEASE", otherLock), ":1")
				} else {
					want(t, c.do("LOCK.BREAK", otherLock), ":1")
				}
				want(t, a.do("LOCK.RELEASE", lock), ":0")
				reader := connect(t, s) // its end decides how long the lock lasts
				reader.token(lock, "READ")
				want(t, reader.do("LOCK.RELEASE", lock), ":1")
				want(t, c.do("LOCK.ACQUIRE", lock, "WRITE"), "$-1")
				want(t, a.do("LOCK.RELEASE", lock), ":1")
				c.token(lock, "WRITE")
			}
		}
	})
}

// TestANameInBracesIsAnotherLock: "{a}" and "a" have nothing in common but Redisson's keys.
func TestANameInBracesIsAnotherLock(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		a, b, c := connect(t, s), connect(t, other), connect(t, s)
		bare := newKey()
		braced := "{" + bare + "}"
		for _, key := range []string{bare, braced} { // a release is not answered with the other's answer
			a.token(key, "OWNER", "me")
			want(t, b.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), ":1")
			if exists(t, rdb, key) {
				t.Errorf("%q is still held", key)
			}
		}
		for _, mode := range []string{"READ", "WRITE"} {
			a.token(bare, mode, "OWNER", "me")
			b.token(braced, mode, "OWNER", "me")
			for _, key := range []string{bare, braced} {
				want(t, c.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
			}
			want(t, b.do("LOCK.RELEASE", braced), ":1")
			reader := connect(t, s)
			if mode == "READ" { // its end decides how long the lock lasts
				reader.token(bare, "READ")
				want(t, reader.do("LOCK.RELEASE", bare), ":1")
			}
			want(t, c.do("LOCK.ACQUIRE", bare, "WRITE"), "$-1")
			want(t, a.do("LOCK.RELEASE", bare), ":1")
		}
	})
}

// TestASemaphoreInBracesIsAnotherOne: The permits that expire in one semaphore are given back to
// it, and not to the one with braces around the same name.
func TestASemaphoreInBracesIsAnotherOne(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		a, bare := connect(t, s), newKey()
		braced := "{" + bare + "}"
		for _, key := range []string{bare, braced} {
			want(t, a.do("SEM.INIT", key, "1"), ":1")
		}
		a.permit(bare, "LEASE", "4000")
		a.wantSemaphoreInfo(braced, 1, 1, 0)
		time.Sleep(4050 * time.Millisecond)
		a.permit(braced)
		want(t, a.do("SEM.ACQUIRE", braced), "$-1")
		a.permit(bare)
	})
}
