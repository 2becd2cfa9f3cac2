package lockcmd_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
)

// TestOneRoundTripEach: An uncontended lock costs one command to Redis to acquire it and one to
// release it.
func TestOneRoundTripEach(t *testing.T) {
	t.Parallel()
	p, err := faultproxy.New(redistest.SharedServer(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	var scripts atomic.Int64
	rdb.AddHook(recorder{&scripts})
	s := locktest.Start(t, rdb, lockcmd.Config{Links: locktest.NoDirectPath{}})
	for _, mode := range [][]string{nil, {"READ"}, {"WRITE"}} {
		a, key := locktest.Connect(t, s), locktest.NewKey()
		take := func(options ...string) { a.Token(slices.Concat([]string{key}, mode, options)...) }
		take()
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		before := scripts.Load()
		take("OWNER", "me", "ID", "1")
		take("OWNER", "me", "ID", "2")
		locktest.Want(t, a.Do("LOCK.TTL", key)[:1], ":") // answered from memory
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if n := scripts.Load() - before; n != 4 {
			t.Errorf("%v: got %d scripts, want one for each", mode, n)
		}
	}
}

// recorder counts the scripts that a client sends.
type recorder struct{ scripts *atomic.Int64 }

func (r recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			r.scripts.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (r recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
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
