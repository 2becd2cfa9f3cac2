package acquire_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"

	"github.com/redis/go-redis/v9"
)

func TestMacquireTakesAllOrNone(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(5)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		order := []string{keys[3], keys[0], keys[4], keys[1], keys[2]}
		tokens := locktest.TokensOf(t, a.Do(locktest.Several("LOCK.MACQUIRE", order)...), 5)
		for i, key := range order { // each key is a normal hold
			if tokens[i] == 0 {
				t.Fatalf("no token of %s", key)
			}
			if left := locktest.NumberOf(t, a.Do("LOCK.TTL", key, "TOKEN",
				strconv.FormatInt(tokens[i], 10))); left < 1 {
				t.Errorf("TTL of %s is %d", key, left)
			}
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key), "$-1")
		}
		locktest.Want(t, b.Do(locktest.Several("LOCK.MACQUIRE", append(locktest.NewKeys(3), keys[2]))...),
			locktest.Null)
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[2]), ":1")
		free := locktest.NewKeys(3)
		locktest.Want(t, b.Do(locktest.Several("LOCK.MACQUIRE", append(free, keys[2], keys[4]))...), locktest.Null)
		for _, key := range append(free, keys[2]) {
			if locktest.Exists(t, rdb, key) {
				t.Errorf("%s stayed taken", key)
			}
		}
		if got := s.Stats().Holds; got != 4 {
			t.Errorf("%d holds, want 4", got)
		}
		locktest.Want(t, a.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":4")
		locktest.Want(t, a.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":0")
		locktest.TokensOf(t, b.Do(locktest.Several("LOCK.MACQUIRE", keys)...), 5)
		b.Carrier.End(lockcmd.Release)
		for _, key := range keys {
			if locktest.Exists(t, rdb, key) {
				t.Errorf("%s outlived its connection", key)
			}
		}
	})
}

func TestMacquireRefusesBadArguments(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		c, keys := locktest.Connect(t, s), locktest.NewKeys(2)
		k := strings.Join(keys, " ")
		for command, want := range map[string]string{
			"LOCK.MACQUIRE":                          "-ERR wrong number of arguments for 'lock.macquire' command",
			"LOCK.MACQUIRE 1":                        "-ERR wrong number of arguments for 'lock.macquire' command",
			"LOCK.MACQUIRE 0 " + k:                   "-ERR numkeys should be greater than 0",
			"LOCK.MACQUIRE -1 " + k:                  "-ERR numkeys should be greater than 0",
			"LOCK.MACQUIRE two " + k:                 "-ERR numkeys should be greater than 0",
			"LOCK.MACQUIRE 3 " + k:                   "-ERR Number of keys can't be greater than number of args",
			"LOCK.MACQUIRE 9223372036854775807 " + k: "-ERR Number of keys can't be greater than number of args",
			"LOCK.MACQUIRE 3 " + k + " " + keys[0]:   "-ERR a key is given twice",
			"LOCK.MACQUIRE 2 " + k + " READ":         "-ERR syntax error",
			"LOCK.MACQUIRE 2 " + k + " FAIR":         "-ERR syntax error",
			"LOCK.MACQUIRE 2 " + k + " TOKEN 1":      "-ERR syntax error",
			"LOCK.MACQUIRE 2 " + k + " QUORUM":       "-ERR syntax error",
			"LOCK.MACQUIRE 2 " + k + " QUORUM x":     "-ERR value is not an integer or out of range",
			"LOCK.MACQUIRE 2 " + k +
				" QUORUM 0": "-ERR QUORUM should be greater than 0 and not greater than numkeys",
			"LOCK.MACQUIRE 2 " + k +
				" QUORUM 3": "-ERR QUORUM should be greater than 0 and not greater than numkeys",
			"LOCK.MACQUIRE 2 " + k + " QUORUM 1 QUORUM 1": "-ERR syntax error",
			"LOCK.MACQUIRE 2 " + k + " BLOCK -1":          "-ERR timeout is negative",
			"LOCK.MACQUIRE 2 " + k + " LEASE 0":           "-ERR invalid expire time in 'lock.macquire' command",
			"LOCK.MACQUIRE 2 " + k + " ID x":              "-ERR syntax error",
			"LOCK.ACQUIRE " + keys[0] + " QUORUM 1":       "-ERR syntax error",
			"LOCK.MRELEASE 2 " + k + " TOKENS 1":          "-ERR syntax error",
			"LOCK.MRELEASE 2 " + k + " TOKENS 1 2 3":      "-ERR syntax error",
			"LOCK.MRELEASE 2 " + k + " TOKENS 1 x":        "-ERR value is not an integer or out of range",
			"LOCK.MRELEASE 2 " + k + " OWNER mode":        "-" + refusal.Owner,
			"LOCK.MRELEASE 2 " + k + " ALL":               "-ERR syntax error",
			"LOCK.MRELEASE 3 " + k + " " + keys[1]:        "-ERR a key is given twice",
			"LOCK.MRELEASE x " + k:                        "-ERR numkeys should be greater than 0",
		} {
			if got := c.Do(strings.Fields(command)...); got != want {
				t.Errorf("%s: got %q, want %q", command, got, want)
			}
		}
		for _, key := range keys {
			if locktest.Exists(t, rdb, key) {
				t.Errorf("%s was taken", key)
			}
		}
	})
}

// TestMacquireEntersAgain: An OWNER may acquire again what it holds. A failure undoes only that
// acquire.
func TestMacquireEntersAgain(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(3)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		first := a.Token(keys[0], "OWNER", "x")
		b.Token(keys[2])
		locktest.Want(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x")...), locktest.Null)
		locktest.Want(t, b.Do("LOCK.RELEASE", keys[2]), ":1")
		if tokens := locktest.TokensOf(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x")...),
			3); tokens[0] != first {
			t.Errorf("got token %d, want the hold's %d", tokens[0], first)
		}
		locktest.Want(t, b.Do(locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x")...), "-"+refusal.Elsewhere)
		locktest.Want(t, a.Do(locktest.Several("LOCK.MRELEASE", keys, "OWNER", "x")...), ":2")
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[0]), ":1")
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[0]), "-"+refusal.NotHeld)
	})
}

// TestMacquireAtOnce: Of many clients that try for the same keys in any order, one gets them. The
// others get no key. (Redisson: RedissonMultiLockTest.testWaitAndLeaseTimeouts.)
func TestMacquireAtOnce(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes, keys := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{})}, locktest.NewKeys(3)
		replies := make(chan string, 10)
		for i := range cap(replies) {
			c, mine := locktest.Connect(t, leashes[i%2]), slices.Clone(keys)
			if i%3 == 0 {
				slices.Reverse(mine)
			}
			go func() {
				replies <- c.Do(locktest.Several("LOCK.MACQUIRE", mine, "LEASE", "60000", "OWNER",
					"me:"+strconv.Itoa(i))...)
			}()
		}
		got := 0
		for range cap(replies) {
			if reply := locktest.Receive(t, replies, 5*time.Second); reply != locktest.Null {
				locktest.TokensOf(t, reply, len(keys))
				got++
			}
		}
		if held := leashes[0].Stats().Holds + leashes[1].Stats().Holds; got != 1 || held != int64(len(keys)) {
			t.Errorf("%d got them, and %d keys are held, want 1 and %d", got, held, len(keys))
		}
	})
}

func TestMrelease(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKeys(3)
		a, b := locktest.Connect(t, one), locktest.Connect(t, other)
		tokens := locktest.TokensOf(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys)...), 3)
		var texts []string
		for _, n := range tokens {
			texts = append(texts, strconv.FormatInt(n, 10))
		}
		locktest.Want(t, b.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":0") // not its own hold
		locktest.Want(t, b.Do(locktest.Several("LOCK.MRELEASE", keys,
			append([]string{"TOKENS", "1"}, texts[1:]...)...)...), ":2")
		locktest.Want(t, b.Do(locktest.Several("LOCK.MRELEASE", keys, append([]string{"TOKENS"}, texts...)...)...),
			":1")
		locktest.TokensOf(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x")...), 3)
		locktest.Want(t, b.Do(locktest.Several("LOCK.MRELEASE", keys, "OWNER", "y")...), ":0")
		locktest.Want(t, b.Do(locktest.Several("LOCK.MRELEASE", keys, "OWNER", "x")...), ":3")
	})
}
