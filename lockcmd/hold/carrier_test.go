package hold

import (
	"strconv"
	"testing"
	"time"

	"leash/lockcmd/script"
)

// TestNewestHoldOfACarrierAndKey: Newest returns the newest hold of one connection for one key,
// whether it searches the holds of the connection or those of the key.
func TestNewestHoldOfACarrierAndKey(t *testing.T) {
	t.Parallel()
	l := newLeash()
	a, b := l.connect(), l.connect()
	take := func(c *connection, key string, db int) *Hold {
		return c.take(t, Grant{Key: key, DB: db, Mode: script.Read, Number: l.NewOwners(1), Token: 1, TTL: time.Minute})
	}
	const key = "popular"
	newest := func(c *connection, want *Hold) {
		t.Helper()
		if got := c.carrier.Newest(script.Lock{Key: key}, func(*Hold) bool { return true }); got != want {
			t.Errorf("got %p, want %p", got, want)
		}
	}
	newest(a, nil)
	first := take(a, key, 0)
	second := take(a, key, 0)
	take(a, key, 1)
	others := []*Hold{take(b, key, 0)}
	newest(a, second)
	for range 100 { // the key has more holds than the connection
		others = append(others, take(b, key, 0))
	}
	newest(a, second)
	for i := range 1000 { // the key has fewer holds than the connection
		take(a, strconv.Itoa(i), 0)
	}
	newest(a, second)
	a.carrier.mu.Lock()
	second.applyLocked(Dropped, "")
	a.carrier.mu.Unlock() // the index still contains it
	newest(a, first)
	newest(b, others[len(others)-1])
	a.carrier.End(Expire)
	newest(a, nil)
}

// BenchmarkNewest measures how long a connection searches for its hold of a key.
func BenchmarkNewest(b *testing.B) {
	for _, holds := range []int{1, 1000, 100_000} {
		b.Run(strconv.Itoa(holds), func(b *testing.B) {
			c := newLeash().connect()
			for i := range holds {
				c.take(b, Grant{Key: strconv.Itoa(i), Mode: script.Plain, Number: 1, Token: 1, TTL: time.Minute})
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				lock := script.Lock{Key: strconv.Itoa(i % holds)}
				if c.carrier.NewestReported(lock, func(*Hold) bool { return true }) == nil {
					b.Fatal("there is none")
				}
			}
		})
	}
}
