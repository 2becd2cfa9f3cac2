package lockcmd

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
)

// newKeys are n keys no other test uses, in the order of their names; on a cluster they lie in different slots.
func newKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = newKey()
	}
	slices.Sort(keys)
	return keys
}

// several makes the arguments of a command over several keys.
func several(command string, keys []string, options ...string) []string {
	return append(append([]string{command, strconv.Itoa(len(keys))}, keys...), options...)
}

// tokensOf reads the reply of a MACQUIRE: 0 is nil.
func tokensOf(t testing.TB, reply string, n int) []int64 {
	t.Helper()
	lines := strings.Split(reply, "\r\n")
	if lines[0] != "*"+strconv.Itoa(n) || len(lines) != n+1 {
		t.Fatalf("got reply %q, want %d tokens", reply, n)
	}
	tokens := make([]int64, n)
	for i, line := range lines[1:] {
		if line != "$-1" {
			tokens[i] = tokenOf(t, line)
		}
	}
	return tokens
}

const null = "*-1"

func TestMacquireTakesAllOrNone(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(5)
		a, b := connect(t, s), connect(t, s)
		order := []string{keys[3], keys[0], keys[4], keys[1], keys[2]}
		tokens := tokensOf(t, a.do(several("LOCK.MACQUIRE", order)...), 5)
		for i, key := range order { // each is a hold like any other
			if tokens[i] == 0 {
				t.Fatalf("no token of %s", key)
			}
			if left := numberOf(t, a.do("LOCK.TTL", key, "TOKEN", strconv.FormatInt(tokens[i], 10))); left < 1 {
				t.Errorf("TTL of %s is %d", key, left)
			}
			want(t, b.do("LOCK.ACQUIRE", key), "$-1")
		}
		want(t, b.do(several("LOCK.MACQUIRE", append(newKeys(3), keys[2]))...), null)
		want(t, a.do("LOCK.RELEASE", keys[2]), ":1")
		free := newKeys(3)
		want(t, b.do(several("LOCK.MACQUIRE", append(free, keys[2], keys[4]))...), null)
		for _, key := range append(free, keys[2]) {
			if exists(t, rdb, key) {
				t.Errorf("%s stayed taken", key)
			}
		}
		if got := s.Stats().Holds; got != 4 {
			t.Errorf("%d holds, want 4", got)
		}
		want(t, a.do(several("LOCK.MRELEASE", keys)...), ":4")
		want(t, a.do(several("LOCK.MRELEASE", keys)...), ":0")
		tokensOf(t, b.do(several("LOCK.MACQUIRE", keys)...), 5)
		b.carrier.End(Release)
		for _, key := range keys {
			if exists(t, rdb, key) {
				t.Errorf("%s outlived its connection", key)
			}
		}
	})
}

func numberOf(t testing.TB, reply string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
	if err != nil {
		t.Fatalf("got reply %q, want a number", reply)
	}
	return n
}

func TestMacquireRefusesBadArguments(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		c, keys := connect(t, s), newKeys(2)
		k := strings.Join(keys, " ")
		for command, want := range map[string]string{
			"LOCK.MACQUIRE":                               "-ERR wrong number of arguments for 'lock.macquire' command",
			"LOCK.MACQUIRE 1":                             "-ERR wrong number of arguments for 'lock.macquire' command",
			"LOCK.MACQUIRE 0 " + k:                        "-ERR numkeys should be greater than 0",
			"LOCK.MACQUIRE -1 " + k:                       "-ERR numkeys should be greater than 0",
			"LOCK.MACQUIRE two " + k:                      "-ERR numkeys should be greater than 0",
			"LOCK.MACQUIRE 3 " + k:                        "-ERR Number of keys can't be greater than number of args",
			"LOCK.MACQUIRE 9223372036854775807 " + k:      "-ERR Number of keys can't be greater than number of args",
			"LOCK.MACQUIRE 3 " + k + " " + keys[0]:        "-ERR a key is given twice",
			"LOCK.MACQUIRE 2 " + k + " READ":              "-ERR syntax error",
			"LOCK.MACQUIRE 2 " + k + " FAIR":              "-ERR syntax error",
			"LOCK.MACQUIRE 2 " + k + " TOKEN 1":           "-ERR syntax error",
			"LOCK.MACQUIRE 2 " + k + " QUORUM":            "-ERR syntax error",
			"LOCK.MACQUIRE 2 " + k + " QUORUM x":          "-ERR value is not an integer or out of range",
			"LOCK.MACQUIRE 2 " + k + " QUORUM 0":          "-ERR QUORUM should be greater than 0 and not greater than numkeys",
			"LOCK.MACQUIRE 2 " + k + " QUORUM 3":          "-ERR QUORUM should be greater than 0 and not greater than numkeys",
			"LOCK.MACQUIRE 2 " + k + " QUORUM 1 QUORUM 1": "-ERR syntax error",
			"LOCK.MACQUIRE 2 " + k + " BLOCK -1":          "-ERR timeout is negative",
			"LOCK.MACQUIRE 2 " + k + " LEASE 0":           "-ERR invalid expire time in 'lock.macquire' command",
			"LOCK.MACQUIRE 2 " + k + " ID x":              "-ERR syntax error",
			"LOCK.ACQUIRE " + keys[0] + " QUORUM 1":       "-ERR syntax error",
			"LOCK.MRELEASE 2 " + k + " TOKENS 1":          "-ERR syntax error",
			"LOCK.MRELEASE 2 " + k + " TOKENS 1 2 3":      "-ERR syntax error",
			"LOCK.MRELEASE 2 " + k + " TOKENS 1 x":        "-ERR value is not an integer or out of range",
			"LOCK.MRELEASE 2 " + k + " OWNER mode":        "-" + msgOwner,
			"LOCK.MRELEASE 2 " + k + " ALL":               "-ERR syntax error",
			"LOCK.MRELEASE 3 " + k + " " + keys[1]:        "-ERR a key is given twice",
			"LOCK.MRELEASE x " + k:                        "-ERR numkeys should be greater than 0",
		} {
			if got := c.do(strings.Fields(command)...); got != want {
				t.Errorf("%s: got %q, want %q", command, got, want)
			}
		}
		for _, key := range keys {
			if exists(t, rdb, key) {
				t.Errorf("%s was taken", key)
			}
		}
	})
}

// TestMacquireWaitsWithWhatComesBefore: the key that is waited for has those before it in hand, and none behind it.
func TestMacquireWaitsWithWhatComesBefore(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}, patient), newKeys(3)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[1])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.queues.length(lockID{0, keys[1]}) == 1 })
		if !exists(t, rdb, keys[0]) || exists(t, rdb, keys[2]) {
			t.Errorf("in hand are %v and %v, want the first alone", exists(t, rdb, keys[0]), exists(t, rdb, keys[2]))
		}
		want(t, a.do("LOCK.RELEASE", keys[1]), ":1")
		tokensOf(t, receive(t, reply, 5*time.Second), 3)
		if got := s.Stats().Waiters; got != 0 || b.waits.Load() != 1 {
			t.Errorf("%d waiters, and b's host was told of %d waits", got, b.waits.Load())
		}

		// BLOCK is the time for all, and nothing stays when it is over.
		began := time.Now()
		want(t, a.do(several("LOCK.MACQUIRE", append(newKeys(1), keys...), "BLOCK", "300")...), null)
		if took := time.Since(began); took < 300*time.Millisecond || took > soon {
			t.Errorf("BLOCK 300 took %v", took)
		}
		if got := s.Stats().Holds; got != 3 {
			t.Errorf("%d holds, want 3", got)
		}
	})
}

// TestMacquireLeavesNothingToAClientThatIsGone: neither what it had in hand nor what it waited for.
func TestMacquireLeavesNothingToAClientThatIsGone(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(3)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[2])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0", "ONCLOSE", "EXPIRE", "OWNER", "b")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.queues.length(lockID{0, keys[2]}) == 1 })
		b.gone()
		wantPrefix(t, receive(t, reply, 5*time.Second), "-LOCKTIMEOUT ")
		b.carrier.End(Expire)
		for _, key := range keys[:2] {
			if exists(t, rdb, key) {
				t.Errorf("%s stayed taken", key)
			}
		}
		want(t, a.do("LOCK.RELEASE", keys[2]), ":1")
		if exists(t, rdb, keys[2]) {
			t.Error("the lock went to somebody who is gone")
		}
	})
}

// TestMacquireDeadlock: R5, for each of the keys.
func TestR5MacquireDeadlock(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(3)
		a := connect(t, s)
		a.token(keys[1])
		wantPrefix(t, a.do(several("LOCK.MACQUIRE", keys, "BLOCK", "0")...), "-LOCKDEADLOCK ")
		wantPrefix(t, a.do(several("LOCK.MACQUIRE", keys, "BLOCK", "0", "QUORUM", "2")...), "-LOCKDEADLOCK ")
		want(t, a.do(several("LOCK.MACQUIRE", keys)...), null)
		if exists(t, rdb, keys[0]) || exists(t, rdb, keys[2]) {
			t.Error("something was taken")
		}
	})
}

// TestMacquireEntersAgain: an OWNER enters what it has, and a failure takes back that entry alone.
func TestMacquireEntersAgain(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(3)
		a, b := connect(t, s), connect(t, s)
		first := a.token(keys[0], "OWNER", "x")
		b.token(keys[2])
		want(t, a.do(several("LOCK.MACQUIRE", keys, "OWNER", "x")...), null)
		want(t, b.do("LOCK.RELEASE", keys[2]), ":1")
		if tokens := tokensOf(t, a.do(several("LOCK.MACQUIRE", keys, "OWNER", "x")...), 3); tokens[0] != first {
			t.Errorf("got token %d, want the hold's %d", tokens[0], first)
		}
		want(t, b.do(several("LOCK.MACQUIRE", keys, "OWNER", "x")...), "-"+msgElsewhere)
		want(t, a.do(several("LOCK.MRELEASE", keys, "OWNER", "x")...), ":2")
		want(t, a.do("LOCK.RELEASE", keys[0]), ":1")
		want(t, a.do("LOCK.RELEASE", keys[0]), "-"+msgNotHeld)
	})
}

// TestMacquireNeverDeadlocks: callers who name the same keys in different orders, on two Leashes, all come to their turn, one at a time.
func TestMacquireNeverDeadlocks(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKeys(4)
		var inside, errors sync.Map
		var wg sync.WaitGroup
		for n := range 8 {
			c := connect(t, []*Service{one, other}[n%2])
			mine := []string{keys[n%4], keys[(n+1)%4], keys[(n+2)%4]}
			if n%3 == 0 {
				slices.Reverse(mine)
			}
			wg.Go(func() {
				for range 10 {
					reply := c.do(several("LOCK.MACQUIRE", mine, "BLOCK", "60000")...)
					if !strings.HasPrefix(reply, "*3\r\n:") {
						errors.Store(reply, true)
						return
					}
					for _, key := range mine {
						if _, busy := inside.LoadOrStore(key, true); busy {
							errors.Store("two hold "+key, true)
						}
					}
					for _, key := range mine {
						inside.Delete(key)
					}
					if got := c.do(several("LOCK.MRELEASE", mine)...); got != ":3" {
						errors.Store(got, true)
					}
				}
			})
		}
		wg.Wait()
		errors.Range(func(what, _ any) bool { t.Error(what); return true })
		for _, key := range keys {
			if exists(t, rdb, key) {
				t.Errorf("%s stayed taken", key)
			}
		}
	})
}

func TestMrelease(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKeys(3)
		a, b := connect(t, one), connect(t, other)
		tokens := tokensOf(t, a.do(several("LOCK.MACQUIRE", keys)...), 3)
		var texts []string
		for _, n := range tokens {
			texts = append(texts, strconv.FormatInt(n, 10))
		}
		want(t, b.do(several("LOCK.MRELEASE", keys)...), ":0") // not its own
		want(t, b.do(several("LOCK.MRELEASE", keys, append([]string{"TOKENS", "1"}, texts[1:]...)...)...), ":2")
		want(t, b.do(several("LOCK.MRELEASE", keys, append([]string{"TOKENS"}, texts...)...)...), ":1")
		tokensOf(t, a.do(several("LOCK.MACQUIRE", keys, "OWNER", "x")...), 3)
		want(t, b.do(several("LOCK.MRELEASE", keys, "OWNER", "y")...), ":0")
		want(t, b.do(several("LOCK.MRELEASE", keys, "OWNER", "x")...), ":3")
	})
}

// TestMacquireTellsOfNothingHalfMade: a key that was in hand and is lost while another is waited for is taken again, and no loss.
func TestMacquireTellsOfNothingHalfMade(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{WatchdogTimeout: 3 * time.Second}), newKeys(2)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[1])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.queues.length(lockID{0, keys[1]}) == 1 })
		if err := rdb.Del(t.Context(), keys[0]).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 5*time.Second, "the watchdog sees it", func() bool { return s.Stats().Holds == 1 })
		c := connect(t, s)
		c.token(keys[0])
		want(t, a.do("LOCK.RELEASE", keys[1]), ":1")
		eventually(t, 5*time.Second, "b waits for the first", func() bool { return s.queues.length(lockID{0, keys[0]}) == 1 })
		want(t, c.do("LOCK.RELEASE", keys[0]), ":1")
		tokensOf(t, receive(t, reply, 5*time.Second), 2)
		select {
		case loss := <-b.losses:
			t.Errorf("b was told of the loss of %s", loss)
		default:
		}
		if n := s.Stats().Losses["gone"]; n != 0 {
			t.Errorf("%d losses were counted", n)
		}
	})
}

// TestMacquireLeaseBeginsWithTheLastKey: what is in hand while others are waited for is kept, however short the LEASE is to be.
func TestMacquireLeaseBeginsWithTheLastKey(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(3)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[2])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0", "LEASE", "2000")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.queues.length(lockID{0, keys[2]}) == 1 })
		for began := time.Now(); time.Since(began) < 3*time.Second; <-time.After(20 * time.Millisecond) {
			if !exists(t, rdb, keys[0]) || !exists(t, rdb, keys[1]) {
				t.Fatal("what was in hand has run out")
			}
		}
		want(t, a.do("LOCK.RELEASE", keys[2]), ":1")
		tokensOf(t, receive(t, reply, 5*time.Second), 3)
		for _, key := range keys {
			if left := rdb.PTTL(t.Context(), key).Val(); left > 2*time.Second {
				t.Errorf("%s lasts %v", key, left)
			}
			eventually(t, 5*time.Second, "the lease ends", func() bool { return !exists(t, rdb, key) })
		}
		eventually(t, 5*time.Second, "nothing is held", func() bool { return s.Stats().Holds == 0 })
		select {
		case loss := <-b.losses:
			t.Errorf("b was told of the loss of %s", loss)
		default:
		}
		tokensOf(t, b.do(several("LOCK.MACQUIRE", keys, "BLOCK", "0", "LEASE", "60000")...), 3)
		b.carrier.End(Release)
		for _, key := range keys { // as any lease, whatever the connection does
			if !exists(t, rdb, key) {
				t.Errorf("%s has ended with its connection", key)
			}
		}
	})
}

// TestMacquireMaxHoldBeginsWithTheLastKey: MAXHOLD counts from the grant on, of all.
func TestMacquireMaxHoldBeginsWithTheLastKey(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(2)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[1])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0", "MAXHOLD", "300")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.queues.length(lockID{0, keys[1]}) == 1 })
		for began := time.Now(); time.Since(began) < 500*time.Millisecond; <-time.After(20 * time.Millisecond) {
			if !exists(t, rdb, keys[0]) {
				t.Fatal("what was in hand was taken away")
			}
		}
		want(t, a.do("LOCK.RELEASE", keys[1]), ":1")
		tokensOf(t, receive(t, reply, 5*time.Second), 2)
		for range keys {
			if told := receive(t, b.losses, 5*time.Second); !strings.HasSuffix(told, " maxhold") {
				t.Errorf("told of %q", told)
			}
		}
		eventually(t, 5*time.Second, "both are released", func() bool { return !exists(t, rdb, keys[0]) && !exists(t, rdb, keys[1]) })
	})
}

// TestMacquireOfUnknownOutcome: when a node does not say whether it granted its key, nothing stays taken anywhere.
func TestMacquireOfUnknownOutcome(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := dialCluster(t, cluster.Addrs()...)
	s := leash(t, rdb, Config{UpstreamTimeout: time.Second})
	var keys []string
	for _, slot := range []int{0, 8000, 16000} {
		keys = append(keys, redistest.KeyIn(slot, newKey()))
	}
	a := connect(t, s)
	tokensOf(t, a.do(several("LOCK.MACQUIRE", keys)...), 3)
	want(t, a.do(several("LOCK.MRELEASE", keys)...), ":3")
	stopped := cluster.MasterOf(8000)
	if err := stopped.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]string{nil, {"BLOCK", "0"}, {"LEASE", "60000", "BLOCK", "500"}} {
		wantPrefix(t, a.do(several("LOCK.MACQUIRE", keys, options...)...), "-LOCKTIMEOUT ")
		eventually(t, 10*time.Second, "nothing is taken", func() bool { return !exists(t, rdb, keys[0]) && !exists(t, rdb, keys[2]) })
	}
	if err := stopped.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "what the stopped node granted is undone", func() bool { return !exists(t, rdb, keys[1]) })
	if got := s.Stats().Holds; got != 0 {
		t.Errorf("%d holds", got)
	}
}

// TestR7MacquireRepeated: with the same ID it answers the same tokens and counts no further, and from another connection it moves all
// of the holds there, or none stays.
func TestR7MacquireRepeated(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKeys(3)
		a, b, c := connect(t, one), connect(t, other), connect(t, other)
		acquire := several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "1")
		tokens := tokensOf(t, a.do(acquire...), 3)
		if again := tokensOf(t, a.do(acquire...), 3); !slices.Equal(again, tokens) {
			t.Errorf("got tokens %v, want %v", again, tokens)
		}
		if moved := tokensOf(t, b.do(acquire...), 3); !slices.Equal(moved, tokens) {
			t.Errorf("got tokens %v, want %v", moved, tokens)
		}
		eventually(t, 5*time.Second, "the first connection has none", func() bool { return one.Stats().Holds == 0 })
		want(t, b.do("LOCK.RELEASE", keys[1]), ":1")
		blocker := connect(t, one)
		blocker.token(keys[1])
		want(t, c.do(acquire...), null)
		for i, key := range keys {
			if exists(t, rdb, key) != (i == 1) {
				t.Errorf("%s is taken: %v", key, i != 1)
			}
		}
		want(t, b.do(several("LOCK.MRELEASE", keys)...), ":0")
	})
}

// TestMacquireEndsWithItsConnection: what it has in hand is released even where holds are left to run out, for nobody was told of it.
func TestMacquireEndsWithItsConnection(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(2)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[1])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.queues.length(lockID{0, keys[1]}) == 1 })
		b.carrier.End(Expire)
		if exists(t, rdb, keys[0]) {
			t.Error("what was in hand stayed taken")
		}
		b.gone()
		wantPrefix(t, receive(t, reply, 5*time.Second), "-LOCKTIMEOUT ")
	})
}
