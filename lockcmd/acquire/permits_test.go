package acquire_test

import (
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// lease returns how long a permit's lease lasts, from its score.
func lease(t testing.TB, rdb redis.UniversalClient, key, permit string) time.Duration {
	t.Helper()
	return time.Until(time.UnixMilli(int64(permitScore(t, rdb, key, permit))))
}

func permitScore(t testing.TB, rdb redis.UniversalClient, key, permit string) float64 {
	t.Helper()
	raw, _ := hex.DecodeString(permit)
	ends, err := rdb.ZScore(context.Background(), script.PermitsKey(key), string(raw)).Result()
	if err != nil {
		t.Fatalf("permit %s: %v", permit, err)
	}
	return ends
}

func TestR23PermitLayoutIsRedissons(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		key := locktest.Semaphore(t, s, 2)
		a, heard := locktest.Connect(t, s), locktest.ListenTo(t, rdb, "redisson_sc:{"+key+"}")
		locktest.Want(t, a.Do("SEM.ACQUIRE", locktest.NewKey()), "$-1")
		p := a.Permit(key)
		locktest.Want(t, rdb.Get(ctx, key).Val(), "1")
		members := rdb.ZRange(ctx, "{"+key+"}:timeout", 0, -1).Val()
		if len(members) != 1 || hex.EncodeToString([]byte(members[0])) != p {
			t.Fatalf("got members %q, want the 16 bytes of %s", members, p)
		}
		text, err := rdb.Do(ctx, "ZSCORE", "{"+key+"}:timeout", members[0]).Text()
		if _, bad := strconv.ParseInt(text, 10, 64); err != nil || bad != nil { // R23
			t.Errorf("got score %q, want whole ms", text)
		}
		if left := lease(t, rdb, key, p); left < 25*time.Second || left > 31*time.Second {
			t.Errorf("got lease %v, want 30 s", left)
		}
		r, ok := script.ParseRecord(rdb.HGet(ctx, "{"+key+"}:leash", p).Val())
		if !ok || r.Carrier != a.Carrier.Name || r.Options != "w" || r.Client != "127.0.0.1:5000 test" {
			t.Errorf("got record %+v", r)
		}
		if left := rdb.PTTL(ctx, "{"+key+"}:leash").Val(); left < 25*time.Second || left > 30*time.Second {
			t.Errorf("our hash lives for %v, want 30 s", left)
		}
		q := a.Permit(key, "LEASE", "20000")
		if left := lease(t, rdb, key, q); left < 15*time.Second || left > 20*time.Second {
			t.Errorf("got lease %v, want 20 s", left)
		}
		locktest.Want(t, a.Do("SEM.ACQUIRE", key), "$-1")
		a.WantSemaphoreInfo(key, 2, 0, 2)
		locktest.Want(t, a.Do("SEM.RELEASE", key), ":1") // the newest permit
		locktest.WantMessage(t, heard, "1")
		locktest.Want(t, a.Do("SEM.RELEASE", key, q), "-"+refusal.NoPermit)
		locktest.Want(t, a.Do("SEM.RELEASE", key, strings.ToUpper(p)), ":1")
		locktest.WantMessage(t, heard, "2")
		locktest.Want(t, a.Do("SEM.RELEASE", key), "-"+refusal.NoPermit)
		locktest.WantNoMessage(t, heard)
		if n := rdb.Exists(ctx, "{"+key+"}:timeout").Val() + rdb.Exists(ctx, "{"+key+"}:leash").Val(); n != 0 {
			t.Error("something is left behind")
		}
		if a.Carrier.Holds() != 0 || s.Stats().Holds != 0 || a.Guarded.Load() {
			t.Error("the connection still holds something")
		}
	})
}

func TestPermitsAreTakenAllOrNone(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{UpstreamTimeout: time.Minute}) // for a thousand at once
		key, a := locktest.Semaphore(t, s, 10), locktest.Connect(t, s)
		six := a.Permits(6, key, "COUNT", "6")
		locktest.Want(t, a.Do("SEM.ACQUIRE", key, "COUNT", "5"), "$-1")
		a.WantSemaphoreInfo(key, 10, 4, 6)
		one := a.Permits(1, key, "COUNT", "1")
		locktest.Want(t, a.Do("SEM.RELEASE", key, six[0], six[1], one[0], six[0], locktest.PermitNumber(1)), ":3")
		locktest.Want(t, a.Do(append([]string{"SEM.RELEASE", key}, six[2:]...)...), ":4")
		a.WantSemaphoreInfo(key, 10, 10, 0)
		many := locktest.Semaphore(t, s, 1000)
		locktest.Want(t, a.Do(append([]string{"SEM.RELEASE", many}, a.Permits(1000, many, "COUNT", "1000")...)...),
			":1000")
		a.WantSemaphoreInfo(many, 1000, 1000, 0)
	})
}

func TestPermitsAreReleasedFromAnywhere(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		key, a := locktest.Semaphore(t, s, 5), locktest.Connect(t, s)
		for _, where := range []*lockcmd.Service{s, other} {
			p := a.Permit(key)
			locktest.Want(t, locktest.Connect(t, where).Do("SEM.RELEASE", key), "-"+refusal.NoPermit)
			locktest.Want(t, locktest.Connect(t, where).Do("SEM.RELEASE", key, p), ":1")
			locktest.Want(t, locktest.Connect(t, where).Do("SEM.RELEASE", key, p), "-"+refusal.NoPermit)
			locktest.Eventually(t, 3*time.Second, "the carrier forgets", func() bool { return a.Carrier.Holds() == 0 })
		}
		if len(a.Losses) != 0 {
			t.Errorf("reported as a loss: %s", <-a.Losses)
		}
		locktest.JavaPermit(t, rdb, key, locktest.PermitNumber(1), time.Time{})
		locktest.Want(t, a.Do("SEM.RELEASE", key, locktest.PermitNumber(1)), ":1")
		rdb.DecrBy(t.Context(), key, 1) // Redisson before 3.17 acquires a permit this way
		rdb.ZAdd(t.Context(), script.PermitsKey(key), redis.Z{Score: 922337203685477, Member: locktest.PermitNumber(2)})
		locktest.Want(t, a.Do("SEM.RELEASE", key, locktest.PermitNumber(2)), ":1")
		locktest.JavaPermit(t, rdb, key, locktest.PermitNumber(3), time.Now().Add(-time.Second))
		// its lease had expired, so it was already returned
		locktest.Want(t, a.Do("SEM.RELEASE", key, locktest.PermitNumber(3)), "-"+refusal.NoPermit)
		a.WantSemaphoreInfo(key, 5, 5, 0)
	})
}

func TestR28PermitsEndWithTheirConnection(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 6 * time.Second})
		key, a, b := locktest.Semaphore(t, s, 5), locktest.Connect(t, s), locktest.Connect(t, s)
		a.Permits(2, key, "COUNT", "2")
		leased := a.Permit(key, "LEASE", "60000")
		b.Permit(key)
		a.Carrier.End(lockcmd.Release)
		b.WantSemaphoreInfo(key, 5, 3, 2)
		if left := lease(t, rdb, key, leased); left < 40*time.Second {
			t.Errorf("the leased permit has %v left, want its lease", left)
		}
		b.Carrier.End(lockcmd.Expire) // R23: the permit of a broken connection returns when its lease expires
		locktest.Connect(t, s).WantSemaphoreInfo(key, 5, 3, 2)
		locktest.Eventually(t, 5*time.Second, "its permit comes back", func() bool {
			_, available, held, _ := locktest.Connect(t, s).SemaphoreInfo(key)
			return available == 4 && held == 1
		})
		locktest.Connect(t, s).Permits(4, key, "COUNT", "4")
		if n := locktest.Records(rdb, key); n != 5 {
			t.Errorf("got %d records, want those of the 5 permits that are out", n)
		}
	})
}

func TestR24PermitsAreRenewed(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		key, a := locktest.Semaphore(t, s, 400), locktest.Connect(t, s)
		kept := a.Permits(300, key, "COUNT", "300") // more than one batch
		longer := a.Permit(key, "TTL", "120000")
		leased := a.Permit(key, "LEASE", "4000")
		soonOver := float64(time.Now().Add(20 * time.Second).UnixMilli())
		for _, p := range append(kept, longer) {
			raw, _ := hex.DecodeString(p)
			rdb.ZAdd(t.Context(), script.PermitsKey(key), redis.Z{Score: soonOver, Member: string(raw)})
		}
		locktest.Eventually(t, 3*time.Second, "the lease is over, and the others are renewed", func() bool {
			s.Watchdog.CheckAll()
			return a.Carrier.Holds() == 301 && lease(t, rdb, key, leased) <= 0 &&
				lease(t, rdb, key, longer) > time.Minute && !slices.ContainsFunc(kept, func(p string) bool {
				return lease(t, rdb, key, p) < 21*time.Second
			})
		})
		for _, p := range kept {
			if left := lease(t, rdb, key, p); left > 31*time.Second {
				t.Fatalf("a renewed permit has %v left", left)
			}
		}
		s.RenewAll(t.Context())
		a.WantSemaphoreInfo(key, 400, 99, 301)
		locktest.Want(t, a.Do("SEM.RELEASE", key, leased), "-"+refusal.NoPermit)
		if len(a.Losses) != 0 {
			t.Errorf("reported as a loss: %s", <-a.Losses)
		}
	})
}

func TestR27LostPermitIsReported(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 6 * time.Second}), context.Background()
		for _, how := range []string{"released by Redisson", "flushed", "overwritten", "record gone"} {
			key, a, b := locktest.Semaphore(t, s, 3), locktest.Connect(t, s), locktest.Connect(t, s)
			p := a.Permit(key)
			raw, _ := hex.DecodeString(p)
			kept := b.Permit(key)
			switch how {
			case "released by Redisson":
				rdb.ZRem(ctx, script.PermitsKey(key), string(raw))
				rdb.Incr(ctx, key)
			case "flushed":
				rdb.Del(ctx, key, script.PermitsKey(key), script.RecordsKey(key))
			case "overwritten":
				rdb.Set(ctx, script.PermitsKey(key), "poison", 0)
			case "record gone":
				rdb.HDel(ctx, script.RecordsKey(key), p)
			}
			locktest.Want(t, locktest.Receive(t, a.Losses, 5*time.Second), key+" gone")
			if how == "released by Redisson" || how == "record gone" {
				if left := lease(t, rdb, key, kept); left <= 0 || len(b.Losses) != 0 {
					t.Errorf("%s: an innocent permit has %v left", how, left)
				}
			} else {
				locktest.Want(t, locktest.Receive(t, b.Losses, 5*time.Second), key+" gone")
			}
			locktest.Want(t, a.Do("SEM.RELEASE", key), "-"+refusal.NoPermit)
			b.Carrier.End(lockcmd.Release)
		}
	})
}

func TestPermitArguments(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s := locktest.Start(t, rdb, lockcmd.Config{})
	key, a := locktest.Semaphore(t, s, 5), locktest.Connect(t, s)
	for _, row := range []struct{ want, args string }{
		{"ERR wrong number of arguments for 'sem.acquire' command", "SEM.ACQUIRE"},
		{"ERR wrong number of arguments for 'sem.release' command", "SEM.RELEASE"},
		{refusal.Count, "SEM.ACQUIRE % COUNT 0"},
		{refusal.Count, "SEM.ACQUIRE % COUNT 1001"},
		{refusal.Negative, "SEM.ACQUIRE % COUNT -1"},
		{refusal.NotInteger, "SEM.ACQUIRE % COUNT x"},
		{refusal.Syntax, "SEM.ACQUIRE % COUNT"},
		{refusal.Syntax, "SEM.ACQUIRE % OWNER me"},
		{refusal.Syntax, "SEM.ACQUIRE % READ"},
		{refusal.Syntax, "SEM.ACQUIRE % 2"},
		{refusal.LeaseAndTTL, "SEM.ACQUIRE % LEASE 500 TTL 500"},
		{"ERR invalid expire time in 'sem.acquire' command", "SEM.ACQUIRE % LEASE 0"},
		{"ERR invalid TTL: the minimum is 100 ms", "SEM.ACQUIRE % TTL 99"},
		{refusal.BlockNegative, "SEM.ACQUIRE % BLOCK -1"},
		{refusal.ID, "SEM.ACQUIRE % ID " + strings.Repeat("x", 129)},
		{refusal.Permit, "SEM.RELEASE % x"},
		{refusal.Permit, "SEM.RELEASE % " + locktest.PermitNumber(1) + "0"},
		{refusal.Permit, "SEM.RELEASE % " + locktest.PermitNumber(1) + " g" + locktest.PermitNumber(1)[1:]},
	} {
		if got := a.Do(strings.Fields(strings.ReplaceAll(row.args, "%", key))...); got != "-"+row.want {
			t.Errorf("%s: got %q, want %q", row.args, got, row.want)
		}
	}
	a.WantSemaphoreInfo(key, 5, 5, 0)
}
