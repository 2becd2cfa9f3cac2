package lockcmd

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
)

// TestOneRoundTripEach: An uncontended lock costs one command to Redis to acquire it and one to
// release it.
func TestOneRoundTripEach(t *testing.T) {
	t.Parallel()
	p, err := faultproxy.New(sharedServer(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	var scripts atomic.Int64
	rdb.AddHook(recorder{&scripts})
	s := leash(t, rdb, Config{Links: noDirectPath{}})
	for _, mode := range [][]string{nil, {"READ"}, {"WRITE"}} {
		a, key := connect(t, s), newKey()
		take := func(options ...string) { a.token(slices.Concat([]string{key}, mode, options)...) }
		take()
		want(t, a.do("LOCK.RELEASE", key), ":1")
		before := scripts.Load()
		take("OWNER", "me", "ID", "1")
		take("OWNER", "me", "ID", "2")
		want(t, a.do("LOCK.TTL", key)[:1], ":") // answered from memory
		want(t, a.do("LOCK.RELEASE", key), ":0")
		want(t, a.do("LOCK.RELEASE", key), ":1")
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
	s := leash(t, dialServer(t, m.Addr()), Config{})
	a, b, key := connect(t, s), connect(t, s), "k"
	a.token(key, "OWNER", "me")
	a.token(key, "OWNER", "me")
	reply := b.await(s, 1, key, "BLOCK", "0")
	want(t, a.do("LOCK.RELEASE", key), ":0")
	want(t, a.do("LOCK.RELEASE", key), ":1")
	tokenOf(t, receive(t, reply, 3*time.Second))
	wantPrefix(t, b.do("LOCK.INFO", key), "*22")
	s.RenewAll(context.Background())
	if len(b.losses) != 0 || s.Stats().Renewals == 0 {
		t.Error("the hold was not renewed")
	}
	want(t, b.do("LOCK.RELEASE", key), ":1")
}

func BenchmarkAcquireRelease(b *testing.B) {
	for _, where := range []string{"single", "cluster"} {
		b.Run(where, func(b *testing.B) {
			var rdb redis.UniversalClient = dialServer(b, sharedServer(b).Addr)
			if where == "cluster" {
				rdb = dialCluster(b, sharedCluster(b).Addrs()...)
			}
			s, key := leash(b, rdb, Config{}), newKey()
			c := connect(b, s)
			acquire, release := [][]byte{[]byte("LOCK.ACQUIRE"), []byte(key)},
				[][]byte{[]byte("LOCK.RELEASE"), []byte(key)}
			buf := make([]byte, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				buf = c.carrier.Do(c.ctx, buf[:0], acquire)
				buf = c.carrier.Do(c.ctx, buf[:0], release)
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
			var rdb redis.UniversalClient = dialServer(b, sharedServer(b).Addr)
			if where == "cluster" {
				rdb = dialCluster(b, sharedCluster(b).Addrs()...)
			}
			s := leash(b, rdb, Config{WatchdogTimeout: time.Hour})
			c := connect(b, s)
			for range holds {
				c.token(newKey())
			}
			defer c.carrier.End(Release)
			for b.Loop() {
				s.RenewAll(b.Context())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/holds, "ns/hold")
		})
	}
}
