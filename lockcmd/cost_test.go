package lockcmd_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
)

// TestOneRoundTripEach: An uncontended lock costs one command to Redis to acquire it and one to
// release it.
func TestOneRoundTripEach(t *testing.T) {
	t.Parallel()
	scripts := &locktest.ScriptCounter{}
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{}, scripts.Watch)
	for _, mode := range [][]string{nil, {"READ"}, {"WRITE"}} {
		a, key := locktest.Connect(t, s), locktest.NewKey()
		take := func(options ...string) { a.Token(slices.Concat([]string{key}, mode, options)...) }
		take()
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		before := scripts.Calls.Load()
		take("OWNER", "me", "ID", "1")
		take("OWNER", "me", "ID", "2")
		locktest.Want(t, a.Do("LOCK.TTL", key)[:1], ":") // answered from memory
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if n := scripts.Calls.Load() - before; n != 4 {
			t.Errorf("%v: got %d scripts, want one for each", mode, n)
		}
	}
}

// TestEmbedded: The scripts also run on the embedded Redis, whose Lua supports less.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	s := locktest.Start(t, locktest.DialServer(t, m.Addr()), lockcmd.Config{})
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), "k"
	a.Token(key, "OWNER", "me")
	a.Token(key, "OWNER", "me")
	reply := b.Await(s, 1, key, "BLOCK", "0")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
	locktest.WantPrefix(t, b.Do("LOCK.INFO", key), "*22")
	s.RenewAll(context.Background())
	if len(b.Losses) != 0 || s.Stats().Renewals == 0 {
		t.Error("the hold was not renewed")
	}
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
}

func BenchmarkAcquireRelease(b *testing.B) {
	for _, where := range []string{"single", "cluster"} {
		b.Run(where, func(b *testing.B) {
			var rdb redis.UniversalClient = locktest.DialServer(b, redistest.SharedServer(b).Addr)
			if where == "cluster" {
				rdb = locktest.DialCluster(b, redistest.SharedCluster(b).Addrs()...)
			}
			s, key := locktest.Start(b, rdb, lockcmd.Config{}), locktest.NewKey()
			c := locktest.Connect(b, s)
			acquire, release := [][]byte{[]byte("LOCK.ACQUIRE"), []byte(key)},
				[][]byte{[]byte("LOCK.RELEASE"), []byte(key)}
			buf := make([]byte, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				buf = c.Carrier.Do(c.Ctx, buf[:0], acquire)
				buf = c.Carrier.Do(c.Ctx, buf[:0], release)
			}
			if string(buf) != ":1\r\n" {
				b.Fatalf("got %q", buf)
			}
		})
	}
}

// BenchmarkRenewal measures the cost of a renewal round for each hold.
func BenchmarkRenewal(b *testing.B) {
	const holds = 10_000
	for _, where := range []string{"single", "cluster"} {
		b.Run(where, func(b *testing.B) {
			var rdb redis.UniversalClient = locktest.DialServer(b, redistest.SharedServer(b).Addr)
			if where == "cluster" {
				rdb = locktest.DialCluster(b, redistest.SharedCluster(b).Addrs()...)
			}
			s := locktest.Start(b, rdb, lockcmd.Config{WatchdogTimeout: time.Hour})
			c := locktest.Connect(b, s)
			for range holds {
				c.Token(locktest.NewKey())
			}
			defer c.Carrier.End(lockcmd.Release)
			for b.Loop() {
				s.RenewAll(b.Context())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/holds, "ns/hold")
		})
	}
}
