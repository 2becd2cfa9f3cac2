package lockcmd

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/lockcmd/refusal"

	"github.com/redis/go-redis/v9"
)

// newKeys returns n keys that no other test uses, sorted. On a cluster they are in different slots.
func newKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = newKey()
	}
	slices.Sort(keys)
	return keys
}

// several returns the arguments of a command with several keys.
func several(command string, keys []string, options ...string) []string {
	return append(append([]string{command, strconv.Itoa(len(keys))}, keys...), options...)
}

// tokensOf reads the reply of a MACQUIRE. Nil becomes 0.
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
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(5)
		a, b := connect(t, s), connect(t, s)
		order := []string{keys[3], keys[0], keys[4], keys[1], keys[2]}
		tokens := tokensOf(t, a.do(several("LOCK.MACQUIRE", order)...), 5)
		for i, key := range order { // each key is a normal hold
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
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		c, keys := connect(t, s), newKeys(2)
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

// TestMacquireEntersAgain: An OWNER may acquire again what it holds. A failure undoes only that
// acquire.
func TestMacquireEntersAgain(t *testing.T) {
	t.Parallel()
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
		want(t, b.do(several("LOCK.MACQUIRE", keys, "OWNER", "x")...), "-"+refusal.Elsewhere)
		want(t, a.do(several("LOCK.MRELEASE", keys, "OWNER", "x")...), ":2")
		want(t, a.do("LOCK.RELEASE", keys[0]), ":1")
		want(t, a.do("LOCK.RELEASE", keys[0]), "-"+refusal.NotHeld)
	})
}

// TestMacquireAtOnce: Of many clients that try for the same keys in any order, one gets them. The
// others get no key. (Redisson: RedissonMultiLockTest.testWaitAndLeaseTimeouts.)
func TestMacquireAtOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes, keys := []*Service{leash(t, rdb, Config{}), leash(t, rdb, Config{})}, newKeys(3)
		replies := make(chan string, 10)
		for i := range cap(replies) {
			c, mine := connect(t, leashes[i%2]), slices.Clone(keys)
			if i%3 == 0 {
				slices.Reverse(mine)
			}
			go func() {
				replies <- c.do(several("LOCK.MACQUIRE", mine, "LEASE", "60000", "OWNER", "me:"+strconv.Itoa(i))...)
			}()
		}
		got := 0
		for range cap(replies) {
			if reply := receive(t, replies, 5*time.Second); reply != null {
				tokensOf(t, reply, len(keys))
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKeys(3)
		a, b := connect(t, one), connect(t, other)
		tokens := tokensOf(t, a.do(several("LOCK.MACQUIRE", keys)...), 3)
		var texts []string
		for _, n := range tokens {
			texts = append(texts, strconv.FormatInt(n, 10))
		}
		want(t, b.do(several("LOCK.MRELEASE", keys)...), ":0") // not its own hold
		want(t, b.do(several("LOCK.MRELEASE", keys, append([]string{"TOKENS", "1"}, texts[1:]...)...)...), ":2")
		want(t, b.do(several("LOCK.MRELEASE", keys, append([]string{"TOKENS"}, texts...)...)...), ":1")
		tokensOf(t, a.do(several("LOCK.MACQUIRE", keys, "OWNER", "x")...), 3)
		want(t, b.do(several("LOCK.MRELEASE", keys, "OWNER", "y")...), ":0")
		want(t, b.do(several("LOCK.MRELEASE", keys, "OWNER", "x")...), ":3")
	})
}
