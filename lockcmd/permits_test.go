package lockcmd

import (
	"context"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

var permitReply = regexp.MustCompile(`^\$32\r\n([0-9a-f]{32})$`)

// permit runs a SEM.ACQUIRE that must be granted one permit.
func (c *conn) permit(args ...string) string {
	c.t.Helper()
	return permitOf(c.t, c.do(append([]string{"SEM.ACQUIRE"}, args...)...))
}

func permitOf(t testing.TB, reply string) string {
	t.Helper()
	m := permitReply.FindStringSubmatch(reply)
	if m == nil {
		t.Fatalf("got reply %q, want a permit", reply)
	}
	return m[1]
}

// permits runs a SEM.ACQUIRE with COUNT that must be granted.
func (c *conn) permits(n int, args ...string) []string {
	c.t.Helper()
	reply := c.do(append([]string{"SEM.ACQUIRE"}, args...)...)
	f := strings.Split(reply, "\r\n")
	if f[0] != "*"+strconv.Itoa(n) || len(f) != 1+2*n {
		c.t.Fatalf("got reply %q, want %d permits", reply, n)
	}
	var permits []string
	for i := range n {
		permits = append(permits, f[2+2*i])
	}
	return permits
}

// semaphore creates a semaphore with n permits.
func semaphore(t testing.TB, s *Service, n int) (key string) {
	t.Helper()
	key = newKey()
	want(t, connect(t, s).do("SEM.INIT", key, strconv.Itoa(n)), ":1")
	return key
}

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

func records(rdb redis.UniversalClient, key string) int64 {
	return rdb.HLen(context.Background(), script.RecordsKey(key)).Val()
}

func TestR23PermitLayoutIsRedissons(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		key := semaphore(t, s, 2)
		a, heard := connect(t, s), listenTo(t, rdb, "redisson_sc:{"+key+"}")
		want(t, a.do("SEM.ACQUIRE", newKey()), "$-1")
		p := a.permit(key)
		want(t, rdb.Get(ctx, key).Val(), "1")
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
		if !ok || r.Carrier != a.carrier.Name || r.Options != "w" || r.Client != "127.0.0.1:5000 test" {
			t.Errorf("got record %+v", r)
		}
		if left := rdb.PTTL(ctx, "{"+key+"}:leash").Val(); left < 25*time.Second || left > 30*time.Second {
			t.Errorf("our hash lives for %v, want 30 s", left)
		}
		q := a.permit(key, "LEASE", "20000")
		if left := lease(t, rdb, key, q); left < 15*time.Second || left > 20*time.Second {
			t.Errorf("got lease %v, want 20 s", left)
		}
		want(t, a.do("SEM.ACQUIRE", key), "$-1")
		a.wantSemaphoreInfo(key, 2, 0, 2)
		want(t, a.do("SEM.RELEASE", key), ":1") // the newest permit
		wantMessage(t, heard, "1")
		want(t, a.do("SEM.RELEASE", key, q), "-"+refusal.NoPermit)
		want(t, a.do("SEM.RELEASE", key, strings.ToUpper(p)), ":1")
		wantMessage(t, heard, "2")
		want(t, a.do("SEM.RELEASE", key), "-"+refusal.NoPermit)
		wantNoMessage(t, heard)
		if n := rdb.Exists(ctx, "{"+key+"}:timeout").Val() + rdb.Exists(ctx, "{"+key+"}:leash").Val(); n != 0 {
			t.Error("something is left behind")
		}
		if a.carrier.Holds() != 0 || s.Stats().Holds != 0 || a.guarded.Load() {
			t.Error("the connection still holds something")
		}
	})
}

func TestPermitsAreTakenAllOrNone(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{UpstreamTimeout: time.Minute}) // for a thousand at once
		key, a := semaphore(t, s, 10), connect(t, s)
		six := a.permits(6, key, "COUNT", "6")
		want(t, a.do("SEM.ACQUIRE", key, "COUNT", "5"), "$-1")
		a.wantSemaphoreInfo(key, 10, 4, 6)
		one := a.permits(1, key, "COUNT", "1")
		want(t, a.do("SEM.RELEASE", key, six[0], six[1], one[0], six[0], permitNumber(1)), ":3")
		want(t, a.do(append([]string{"SEM.RELEASE", key}, six[2:]...)...), ":4")
		a.wantSemaphoreInfo(key, 10, 10, 0)
		many := semaphore(t, s, 1000)
		want(t, a.do(append([]string{"SEM.RELEASE", many}, a.permits(1000, many, "COUNT", "1000")...)...), ":1000")
		a.wantSemaphoreInfo(many, 1000, 1000, 0)
	})
}

func TestPermitsAreReleasedFromAnywhere(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		key, a := semaphore(t, s, 5), connect(t, s)
		for _, where := range []*Service{s, other} {
			p := a.permit(key)
			want(t, connect(t, where).do("SEM.RELEASE", key), "-"+refusal.NoPermit)
			want(t, connect(t, where).do("SEM.RELEASE", key, p), ":1")
			want(t, connect(t, where).do("SEM.RELEASE", key, p), "-"+refusal.NoPermit)
			eventually(t, 3*time.Second, "the carrier forgets", func() bool { return a.carrier.Holds() == 0 })
		}
		if len(a.losses) != 0 {
			t.Errorf("reported as a loss: %s", <-a.losses)
		}
		javaPermit(t, rdb, key, permitNumber(1), time.Time{})
		want(t, a.do("SEM.RELEASE", key, permitNumber(1)), ":1")
		rdb.DecrBy(t.Context(), key, 1) // Redisson before 3.17 acquires a permit this way
		rdb.ZAdd(t.Context(), script.PermitsKey(key), redis.Z{Score: 922337203685477, Member: permitNumber(2)})
		want(t, a.do("SEM.RELEASE", key, permitNumber(2)), ":1")
		javaPermit(t, rdb, key, permitNumber(3), time.Now().Add(-time.Second))
		// its lease had expired, so it was already returned
		want(t, a.do("SEM.RELEASE", key, permitNumber(3)), "-"+refusal.NoPermit)
		a.wantSemaphoreInfo(key, 5, 5, 0)
	})
}

func TestR28PermitsEndWithTheirConnection(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{WatchdogTimeout: 6 * time.Second})
		key, a, b := semaphore(t, s, 5), connect(t, s), connect(t, s)
		a.permits(2, key, "COUNT", "2")
		leased := a.permit(key, "LEASE", "60000")
		b.permit(key)
		a.carrier.End(Release)
		b.wantSemaphoreInfo(key, 5, 3, 2)
		if left := lease(t, rdb, key, leased); left < 40*time.Second {
			t.Errorf("the leased permit has %v left, want its lease", left)
		}
		b.carrier.End(Expire) // R23: the permit of a broken connection returns when its lease expires
		connect(t, s).wantSemaphoreInfo(key, 5, 3, 2)
		eventually(t, 5*time.Second, "its permit comes back", func() bool {
			_, available, held, _ := connect(t, s).semaphoreInfo(key)
			return available == 4 && held == 1
		})
		connect(t, s).permits(4, key, "COUNT", "4")
		if n := records(rdb, key); n != 5 {
			t.Errorf("got %d records, want those of the 5 permits that are out", n)
		}
	})
}

func TestR24PermitsAreRenewed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 400), connect(t, s)
		kept := a.permits(300, key, "COUNT", "300") // more than one batch
		longer := a.permit(key, "TTL", "120000")
		leased := a.permit(key, "LEASE", "4000")
		soonOver := float64(time.Now().Add(20 * time.Second).UnixMilli())
		for _, p := range append(kept, longer) {
			raw, _ := hex.DecodeString(p)
			rdb.ZAdd(t.Context(), script.PermitsKey(key), redis.Z{Score: soonOver, Member: string(raw)})
		}
		eventually(t, 3*time.Second, "the lease is over, and the others are renewed", func() bool {
			s.Watchdog.CheckAll()
			return a.carrier.Holds() == 301 && lease(t, rdb, key, leased) <= 0 &&
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
		a.wantSemaphoreInfo(key, 400, 99, 301)
		want(t, a.do("SEM.RELEASE", key, leased), "-"+refusal.NoPermit)
		if len(a.losses) != 0 {
			t.Errorf("reported as a loss: %s", <-a.losses)
		}
	})
}

func TestR27LostPermitIsReported(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{WatchdogTimeout: 6 * time.Second}), context.Background()
		for _, how := range []string{"released by Redisson", "flushed", "overwritten", "record gone"} {
			key, a, b := semaphore(t, s, 3), connect(t, s), connect(t, s)
			p := a.permit(key)
			raw, _ := hex.DecodeString(p)
			kept := b.permit(key)
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
			want(t, receive(t, a.losses, 5*time.Second), key+" gone")
			if how == "released by Redisson" || how == "record gone" {
				if left := lease(t, rdb, key, kept); left <= 0 || len(b.losses) != 0 {
					t.Errorf("%s: an innocent permit has %v left", how, left)
				}
			} else {
				want(t, receive(t, b.losses, 5*time.Second), key+" gone")
			}
			want(t, a.do("SEM.RELEASE", key), "-"+refusal.NoPermit)
			b.carrier.End(Release)
		}
	})
}

func TestPermitArguments(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s := leash(t, rdb, Config{})
	key, a := semaphore(t, s, 5), connect(t, s)
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
		{refusal.Permit, "SEM.RELEASE % " + permitNumber(1) + "0"},
		{refusal.Permit, "SEM.RELEASE % " + permitNumber(1) + " g" + permitNumber(1)[1:]},
	} {
		if got := a.do(strings.Fields(strings.ReplaceAll(row.args, "%", key))...); got != "-"+row.want {
			t.Errorf("%s: got %q, want %q", row.args, got, row.want)
		}
	}
	a.wantSemaphoreInfo(key, 5, 5, 0)
}
