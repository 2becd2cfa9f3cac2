package acquire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// A hold has several acquires. A MACQUIRE on another connection repeats the ID of the last one and
// so moves the hold there.

// TestR27LossOfAMovedHoldIsReported: A moved hold is lost. Its new connection is told, whether the
// MACQUIRE fails or still waits.
func TestR27LossOfAMovedHoldIsReported(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(2)
		a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
		a.Twice(keys[0])
		c.Token(keys[1])
		locktest.Want(t, b.Do(locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "2")...), locktest.Null)
		locktest.Eventually(t, 5*time.Second, "the acquire is undone",
			func() bool { return locktest.Count(rdb, keys[0], "x") == "1" })
		rdb.Del(t.Context(), keys[0])
		s.Watchdog.CheckAll()
		locktest.Want(t, locktest.Receive(t, b.Losses, 5*time.Second), keys[0]+" gone")

		// the same while the MACQUIRE waits
		keys = locktest.NewKeys(2)
		a.Twice(keys[0])
		c.Token(keys[1])
		b.Start(locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "2", "BLOCK", "0")...)
		locktest.Eventually(t, 5*time.Second, "b waits",
			func() bool { return s.Waiting(locktest.LockOf(keys[1])) == 1 })
		rdb.Del(t.Context(), keys[0])
		s.Watchdog.CheckAll()
		locktest.Want(t, locktest.Receive(t, b.Losses, 5*time.Second), keys[0]+" gone")
		b.Gone()
	})
}

// TestR28MovedHoldKeepsItsTerms: While the MACQUIRE that moved a hold still waits, the hold keeps
// its ONCLOSE. It does not become a lease when the other keys are granted.
func TestR28MovedHoldKeepsItsTerms(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(2)
		a, b, c, d := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
		a.Twice(keys[0], "ONCLOSE", "EXPIRE")
		c.Token(keys[1])
		acquire := locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "2", "BLOCK", "0", "LEASE", "60000")
		reply := b.Start(acquire...)
		locktest.Eventually(t, 5*time.Second, "b waits",
			func() bool { return s.Waiting(locktest.LockOf(keys[1])) == 1 })
		b.Carrier.End(lockcmd.Release)
		b.Gone()
		locktest.WantPrefix(t, locktest.Receive(t, reply, 5*time.Second), "-LOCKTIMEOUT ")
		locktest.Want(t, locktest.Count(rdb, keys[0], "x"), "2")

		reply = d.Start(acquire...)
		locktest.Eventually(t, 5*time.Second, "d waits",
			func() bool { return s.Waiting(locktest.LockOf(keys[1])) == 1 })
		locktest.Want(t, c.Do("LOCK.RELEASE", keys[1]), ":1")
		locktest.TokensOf(t, locktest.Receive(t, reply, 5*time.Second), 2)
		locktest.Want(t, d.Do("LOCK.EXTEND", keys[0], "50000"), "-"+refusal.IsRenewed)
		locktest.Want(t, d.Do("LOCK.EXTEND", keys[1], "50000"), ":50000")
		locktest.Want(t, d.Do("LOCK.RELEASE", keys[0]), ":0")
		locktest.Want(t, d.Do("LOCK.RELEASE", keys[0]), ":1")
	})
}

// TestR7QuorumMovesAsOne: The keys of a quorum stay together when a repetition moves them.
func TestR7QuorumMovesAsOne(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		var b *locktest.Client
		var keys []string
		locktest.Eventually(t, 5*time.Second, "the quorum has waited for the third", func() bool {
			keys, b = locktest.NewKeys(3), locktest.Connect(t, s)
			acquire := locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "1", "QUORUM", "2")
			for _, c := range []*locktest.Client{locktest.Connect(t, s), b} {
				reply := c.Do(acquire...)
				if !strings.HasPrefix(reply, "*3") || slices.Contains(locktest.TokensOf(t, reply, 3), 0) {
					return false
				}
			}
			return true
		})
		rdb.Del(t.Context(), keys[0])
		s.Watchdog.CheckAll()
		locktest.Eventually(t, 5*time.Second, "the watchdog sees it", func() bool { return b.Carrier.Holds() == 2 })
		if len(b.Losses) != 0 {
			t.Errorf("told of %q, and the others are enough", <-b.Losses)
		}
		rdb.Del(t.Context(), keys[1])
		s.Watchdog.CheckAll()
		locktest.Want(t, locktest.Receive(t, b.Losses, 5*time.Second), keys[1]+" gone")
		locktest.Eventually(t, 5*time.Second, "the third is ended",
			func() bool { return !locktest.Exists(t, rdb, keys[2]) })
	})
}

// TestR7IDOfAnUndoneAcquireCountsAgain: A failed MACQUIRE is undone. When it is repeated with its
// ID, it counts again.
func TestR7IDOfAnUndoneAcquireCountsAgain(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(2)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		token := a.Token(keys[0], "OWNER", "x", "ID", "1")
		b.Token(keys[1])
		acquire := locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "2")
		locktest.Want(t, a.Do(acquire...), locktest.Null)
		locktest.Eventually(t, 5*time.Second, "it is released",
			func() bool { return locktest.Count(rdb, keys[0], "x") == "1" })
		locktest.Want(t, b.Do("LOCK.RELEASE", keys[1]), ":1")
		for range 2 { // the second time is a repetition
			if tokens := locktest.TokensOf(t, a.Do(acquire...), 2); tokens[0] != token {
				t.Errorf("got token %d, want %d", tokens[0], token)
			}
			locktest.Want(t, locktest.Count(rdb, keys[0], "x"), "2")
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[0]), ":0") // a release by the owner keeps the ID
		if tokens := locktest.TokensOf(t, a.Do(acquire...), 2); tokens[0] != token ||
			locktest.Count(rdb, keys[0], "x") != "1" {
			t.Errorf("got tokens %v, want %d repeated", tokens, token)
		}
	})
}

// TestR7UndoOfEachMode: In every mode, the undo of an acquire also removes its ID.
func TestR7UndoOfEachMode(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		for _, m := range []*script.Mode{script.Plain, script.Read, script.Write} {
			a, key := locktest.Connect(t, s), locktest.NewKey()
			acquire := func(id string) int64 {
				args := []string{key, "OWNER", "x", "ID", id}
				if m.Option != "" {
					args = append(args, m.Option)
				}
				return a.Token(args...)
			}
			field := "x"
			if m == script.Write {
				field = "x:write"
			}
			acquire("1")
			acquire("2")
			s.Releaser.PutBack(a.Oldest(), "1") // "1" is not the last ID
			acquire("2")
			locktest.Want(t, locktest.Count(rdb, key, field), "1")
			acquire("3")
			s.Releaser.PutBack(a.Oldest(), "3")
			acquire("3")
			locktest.Want(t, locktest.Count(rdb, key, field), "2")
			if n := a.Oldest().Details().Count; n != 2 {
				t.Errorf("%s: got count %d, want 2", m.Name, n)
			}
		}
	})
}

// TestR26UnansweredMoveIsFinished: A repeated ACQUIRE gets no answer. Only this acquire is undone.
// The hold that it moved is kept.
func TestR26UnansweredMoveIsFinished(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for _, ran := range []bool{true, false} {
		for _, away := range []bool{false, true} {
			for _, command := range [][]string{{"LOCK.ACQUIRE"}, {"LOCK.MACQUIRE", "1"}} {
				for _, before := range []int{1, 0} {
					tests[fmt.Sprint(ran, away, command, before)] = func(t *testing.T) {
						s, straight, p := locktest.StartFaulty(t,
							lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
						from := s
						if away {
							from = straight
						}
						a, b, key := locktest.Connect(t, from), locktest.Connect(t, s), locktest.NewKey()
						if before == 1 {
							a.Token(key, "OWNER", "x", "ID", "1")
						}
						token := a.Token(key, "OWNER", "x", "ID", "2")
						fault := locktest.Drop(p, ran)(locktest.Running(script.MoveScript, key), faultproxy.Always())
						locktest.Want(t, b.Do(append(command, key, "OWNER", "x", "ID", "2")...), "-"+refusal.Unanswered)
						fault.Disarm()
						if before == 0 {
							locktest.Eventually(t, 3*time.Second, "the acquire is undone", func() bool {
								return !locktest.Exists(t, locktest.RedisOf(straight), key)
							})
							return
						}
						locktest.Eventually(t, 3*time.Second, "the acquire is undone", func() bool {
							return locktest.Count(locktest.RedisOf(straight), key, "x") == "1"
						})
						locktest.Eventually(t, 3*time.Second, "the hold has moved", func() bool {
							return a.Carrier.Holds() == 0 && b.Carrier.Holds() == 1
						})
						if again := b.Token(key, "OWNER", "x", "ID", "2"); again != token {
							t.Errorf("got token %d, want %d", again, token)
						}
						locktest.Want(t, b.Do("LOCK.RELEASE", key), ":0")
						locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
						if len(a.Losses)+len(b.Losses) != 0 {
							t.Error("reported as a loss")
						}
					}
				}
			}
		}
	}
	locktest.RunParallel(t, tests)
}
