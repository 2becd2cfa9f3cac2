package event_test

import (
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/lockcmd"

	"github.com/redis/go-redis/v9"
)

// TestReadersOfLocksWithOneTimeoutKey: Two locks can have one timeout key, if a colon of the one's
// name is in the other's owner. The end of one read hold does not end the other.
func TestReadersOfLocksWithOneTimeoutKey(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		for _, end := range []string{"release", "break"} {
			for _, swapped := range []bool{false, true} {
				key := locktest.NewKey()
				lock, owner := key, "me:o"
				otherLock, otherOwner := "{"+key+"}:me", "o"
				if swapped {
					lock, owner, otherLock, otherOwner = otherLock, otherOwner, lock, owner
				}
				a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
				for range 2 {
					a.Token(lock, "READ", "OWNER", owner)
					b.Token(otherLock, "READ", "OWNER", otherOwner)
				}
				locktest.Want(t, b.Do("LOCK.RELEASE", otherLock), ":0")
				if end == "release" {
					locktest.Want(t, b.Do("LOCK.RELEASE", otherLock), ":1")
				} else {
					locktest.Want(t, c.Do("LOCK.BREAK", otherLock), ":1")
				}
				locktest.Want(t, a.Do("LOCK.RELEASE", lock), ":0")
				reader := locktest.Connect(t, s) // its end decides how long the lock lasts
				reader.Token(lock, "READ")
				locktest.Want(t, reader.Do("LOCK.RELEASE", lock), ":1")
				locktest.Want(t, c.Do("LOCK.ACQUIRE", lock, "WRITE"), "$-1")
				locktest.Want(t, a.Do("LOCK.RELEASE", lock), ":1")
				c.Token(lock, "WRITE")
			}
		}
	})
}

// TestANameInBracesIsAnotherLock: "{a}" and "a" have nothing in common but Redisson's keys.
func TestANameInBracesIsAnotherLock(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		a, b, c := locktest.Connect(t, s), locktest.Connect(t, other), locktest.Connect(t, s)
		bare := locktest.NewKey()
		braced := "{" + bare + "}"
		for _, key := range []string{bare, braced} { // a release is not answered with the other's answer
			a.Token(key, "OWNER", "me")
			locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), ":1")
			if locktest.Exists(t, rdb, key) {
				t.Errorf("%q is still held", key)
			}
		}
		for _, mode := range []string{"READ", "WRITE"} {
			a.Token(bare, mode, "OWNER", "me")
			b.Token(braced, mode, "OWNER", "me")
			for _, key := range []string{bare, braced} {
				locktest.Want(t, c.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
			}
			locktest.Want(t, b.Do("LOCK.RELEASE", braced), ":1")
			reader := locktest.Connect(t, s)
			if mode == "READ" { // its end decides how long the lock lasts
				reader.Token(bare, "READ")
				locktest.Want(t, reader.Do("LOCK.RELEASE", bare), ":1")
			}
			locktest.Want(t, c.Do("LOCK.ACQUIRE", bare, "WRITE"), "$-1")
			locktest.Want(t, a.Do("LOCK.RELEASE", bare), ":1")
		}
	})
}

// TestASemaphoreInBracesIsAnotherOne: The permits that expire in one semaphore are given back to
// it, and not to the one with braces around the same name.
func TestASemaphoreInBracesIsAnotherOne(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		a, bare := locktest.Connect(t, s), locktest.NewKey()
		braced := "{" + bare + "}"
		for _, key := range []string{bare, braced} {
			locktest.Want(t, a.Do("SEM.INIT", key, "1"), ":1")
		}
		a.Permit(bare, "LEASE", "4000")
		a.WantSemaphoreInfo(braced, 1, 1, 0)
		time.Sleep(4050 * time.Millisecond)
		a.Permit(braced)
		locktest.Want(t, a.Do("SEM.ACQUIRE", braced), "$-1")
		a.Permit(bare)
	})
}
