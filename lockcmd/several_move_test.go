package lockcmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// A hold has several acquires. A MACQUIRE on another connection repeats the ID of the last one and
// so moves the hold there.

// twice acquires a key twice, the second time with ID 2.
func (c *conn) twice(key string, options ...string) int64 {
	c.t.Helper()
	c.token(append([]string{key, "OWNER", "x", "ID", "1"}, options...)...)
	return c.token(append([]string{key, "OWNER", "x", "ID", "2"}, options...)...)
}

// TestR27LossOfAMovedHoldIsReported: A moved hold is lost. Its new connection is told, whether the
// MACQUIRE fails or still waits.
func TestR27LossOfAMovedHoldIsReported(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(2)
		a, b, c := connect(t, s), connect(t, s), connect(t, s)
		a.twice(keys[0])
		c.token(keys[1])
		want(t, b.do(several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "2")...), null)
		eventually(t, 5*time.Second, "the acquire is undone", func() bool { return count(rdb, keys[0], "x") == "1" })
		rdb.Del(t.Context(), keys[0])
		s.Watchdog.CheckAll()
		want(t, receive(t, b.losses, 5*time.Second), keys[0]+" gone")

		// the same while the MACQUIRE waits
		keys = newKeys(2)
		a.twice(keys[0])
		c.token(keys[1])
		b.start(several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "2", "BLOCK", "0")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.Waiting(lockOf(keys[1])) == 1 })
		rdb.Del(t.Context(), keys[0])
		s.Watchdog.CheckAll()
		want(t, receive(t, b.losses, 5*time.Second), keys[0]+" gone")
		b.gone()
	})
}

// TestR28MovedHoldKeepsItsTerms: While the MACQUIRE that moved a hold still waits, the hold keeps
// its ONCLOSE. It does not become a lease when the other keys are granted.
func TestR28MovedHoldKeepsItsTerms(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(2)
		a, b, c, d := connect(t, s), connect(t, s), connect(t, s), connect(t, s)
		a.twice(keys[0], "ONCLOSE", "EXPIRE")
		c.token(keys[1])
		acquire := several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "2", "BLOCK", "0", "LEASE", "60000")
		reply := b.start(acquire...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.Waiting(lockOf(keys[1])) == 1 })
		b.carrier.End(Release)
		b.gone()
		wantPrefix(t, receive(t, reply, 5*time.Second), "-LOCKTIMEOUT ")
		want(t, count(rdb, keys[0], "x"), "2")

		reply = d.start(acquire...)
		eventually(t, 5*time.Second, "d waits", func() bool { return s.Waiting(lockOf(keys[1])) == 1 })
		want(t, c.do("LOCK.RELEASE", keys[1]), ":1")
		tokensOf(t, receive(t, reply, 5*time.Second), 2)
		want(t, d.do("LOCK.EXTEND", keys[0], "50000"), "-"+refusal.IsRenewed)
		want(t, d.do("LOCK.EXTEND", keys[1], "50000"), ":50000")
		want(t, d.do("LOCK.RELEASE", keys[0]), ":0")
		want(t, d.do("LOCK.RELEASE", keys[0]), ":1")
	})
}

// TestR7QuorumMovesAsOne: The keys of a quorum stay together when a repetition moves them.
func TestR7QuorumMovesAsOne(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		var b *conn
		var keys []string
		eventually(t, 5*time.Second, "the quorum has waited for the third", func() bool {
			keys, b = newKeys(3), connect(t, s)
			acquire := several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "1", "QUORUM", "2")
			for _, c := range []*conn{connect(t, s), b} {
				reply := c.do(acquire...)
				if !strings.HasPrefix(reply, "*3") || slices.Contains(tokensOf(t, reply, 3), 0) {
					return false
				}
			}
			return true
		})
		rdb.Del(t.Context(), keys[0])
		s.Watchdog.CheckAll()
		eventually(t, 5*time.Second, "the watchdog sees it", func() bool { return b.carrier.Holds() == 2 })
		if len(b.losses) != 0 {
			t.Errorf("told of %q, and the others are enough", <-b.losses)
		}
		rdb.Del(t.Context(), keys[1])
		s.Watchdog.CheckAll()
		want(t, receive(t, b.losses, 5*time.Second), keys[1]+" gone")
		eventually(t, 5*time.Second, "the third is ended", func() bool { return !exists(t, rdb, keys[2]) })
	})
}

// TestR7IDOfAnUndoneAcquireCountsAgain: A failed MACQUIRE is undone. When it is repeated with its
// ID, it counts again.
func TestR7IDOfAnUndoneAcquireCountsAgain(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(2)
		a, b := connect(t, s), connect(t, s)
		token := a.token(keys[0], "OWNER", "x", "ID", "1")
		b.token(keys[1])
		acquire := several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "2")
		want(t, a.do(acquire...), null)
		eventually(t, 5*time.Second, "it is released", func() bool { return count(rdb, keys[0], "x") == "1" })
		want(t, b.do("LOCK.RELEASE", keys[1]), ":1")
		for range 2 { // the second time is a repetition
			if tokens := tokensOf(t, a.do(acquire...), 2); tokens[0] != token {
				t.Errorf("got token %d, want %d", tokens[0], token)
			}
			want(t, count(rdb, keys[0], "x"), "2")
		}
		want(t, a.do("LOCK.RELEASE", keys[0]), ":0") // a release by the owner keeps the ID
		if tokens := tokensOf(t, a.do(acquire...), 2); tokens[0] != token || count(rdb, keys[0], "x") != "1" {
			t.Errorf("got tokens %v, want %d repeated", tokens, token)
		}
	})
}

// TestR7UndoOfEachMode: In every mode, the undo of an acquire also removes its ID.
func TestR7UndoOfEachMode(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		for _, m := range []*script.Mode{script.Plain, script.Read, script.Write} {
			a, key := connect(t, s), newKey()
			acquire := func(id string) int64 {
				args := []string{key, "OWNER", "x", "ID", id}
				if m.Option != "" {
					args = append(args, m.Option)
				}
				return a.token(args...)
			}
			field := "x"
			if m == script.Write {
				field = "x:write"
			}
			acquire("1")
			acquire("2")
			s.Releaser.PutBack(a.carrier.oldest(), "1") // "1" is not the last ID
			acquire("2")
			want(t, count(rdb, key, field), "1")
			acquire("3")
			s.Releaser.PutBack(a.carrier.oldest(), "3")
			acquire("3")
			want(t, count(rdb, key, field), "2")
			if n := a.carrier.oldest().Details().Count; n != 2 {
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
						s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
						from := s
						if away {
							from = straight
						}
						a, b, key := connect(t, from), connect(t, s), newKey()
						if before == 1 {
							a.token(key, "OWNER", "x", "ID", "1")
						}
						token := a.token(key, "OWNER", "x", "ID", "2")
						fault := drop(p, ran)(running(script.MoveScript, key), faultproxy.Always())
						want(t, b.do(append(command, key, "OWNER", "x", "ID", "2")...), "-"+refusal.Unanswered)
						fault.Disarm()
						if before == 0 {
							eventually(t, 3*time.Second, "the acquire is undone", func() bool {
								return !exists(t, straight.Redis.Redis, key)
							})
							return
						}
						eventually(t, 3*time.Second, "the acquire is undone", func() bool {
							return count(straight.Redis.Redis, key, "x") == "1"
						})
						eventually(t, 3*time.Second, "the hold has moved", func() bool {
							return a.carrier.Holds() == 0 && b.carrier.Holds() == 1
						})
						if again := b.token(key, "OWNER", "x", "ID", "2"); again != token {
							t.Errorf("got token %d, want %d", again, token)
						}
						want(t, b.do("LOCK.RELEASE", key), ":0")
						want(t, b.do("LOCK.RELEASE", key), ":1")
						if len(a.losses)+len(b.losses) != 0 {
							t.Error("reported as a loss")
						}
					}
				}
			}
		}
	}
	runParallel(t, tests)
}
