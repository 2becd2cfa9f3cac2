package view_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

func TestLocksAreFoundByTheirKeys(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			context.Background()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		plain, fair, read, write, tagged := locktest.NewKey(), locktest.NewKey(), locktest.NewKey(), locktest.NewKey(),
			"{"+locktest.NewKey()+"}:x"
		a.Token(plain)
		b.Token(fair, "FAIR", "LEASE", "60000")
		b.Token(read, "READ")
		a.Token(write, "WRITE", "OWNER", "me")
		a.Token(tagged, "READ")
		permits, lapsed, text, orphan, java := locktest.NewKey(), locktest.NewKey(), locktest.NewKey(),
			locktest.NewKey(), locktest.NewKey()
		for _, key := range []string{permits, lapsed} {
			end := time.Now().Add(time.Minute)
			if key == lapsed {
				end = time.Now().Add(-time.Second)
			}
			id := "00112233445566778899aabbccddeeff"
			rdb.Set(ctx, key, "3", 0)
			rdb.ZAdd(ctx, script.PermitsKey(key), redis.Z{Score: float64(end.UnixMilli()),
				Member: "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"})
			rdb.HSet(ctx, script.RecordsKey(key), id, "L1 5 x:1.1 1 5 1 30000 w - - c")
		}
		rdb.Set(ctx, text, "v", 0)
		rdb.HSet(ctx, orphan, "leash", "L1 5 x:1.1 1 5 1 30000 w - - c")
		locktest.NewJavaRW(t, rdb, java, "7").Read(time.Minute)
		rdb.HSet(ctx, script.RecordsKey(java), "gone", "L1 5 x:1.1 1 5 1 30000 w - - c")
		keys := []string{
			plain, fair, read, script.RecordsKey(read), write, script.RecordsKey(write), script.RecordsKey(tagged),
			permits, script.RecordsKey(permits), script.RecordsKey(lapsed),
			text, orphan, java, script.RecordsKey(java), locktest.NewKey(), "x:leash", "a}b{:leash", "{}a:leash",
		}
		got, err := s.Locks(ctx, 0, keys)
		if want := []string{plain, fair, read, write, tagged, permits}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if got, err := s.Locks(ctx, 0, nil); len(got) != 0 || err != nil {
			t.Errorf("got %q, %v of nothing", got, err)
		}
	})
}

func TestLocksAreNotKnownWithoutRedis(t *testing.T) {
	t.Parallel()
	s, _, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, plain, read := locktest.Connect(t, s), locktest.NewKey(), locktest.NewKey()
	a.Token(plain)
	a.Token(read, "READ")
	for _, keys := range [][]string{{plain}, {script.RecordsKey(read)}} {
		if got, err := s.Locks(t.Context(), 0, keys); err != nil || len(got) != 1 {
			t.Fatalf("got %q, %v", got, err)
		}
		fault := p.DropAfter(faultproxy.Named("HLEN"), faultproxy.Always())
		if keys[0] != plain {
			fault.Disarm()
			fault = p.DropAfter(locktest.Running(script.ByName("held"), read), faultproxy.Always())
		}
		if got, err := s.Locks(t.Context(), 0, keys); err == nil {
			t.Errorf("got %q, and no error", got)
		}
		fault.Disarm()
	}
}
