package lockcmd

import (
	"context"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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

// semaphore sets up a semaphore of n permits.
func semaphore(t testing.TB, s *Service, n int) (key string) {
	t.Helper()
	key = newKey()
	want(t, connect(t, s).do("SEM.INIT", key, strconv.Itoa(n)), ":1")
	return key
}

// lease is for how long a permit's lease lasts, by its score.
func lease(t testing.TB, rdb redis.UniversalClient, key, permit string) time.Duration {
	t.Helper()
	return time.Until(time.UnixMilli(int64(permitScore(t, rdb, key, permit))))
}

func permitScore(t testing.TB, rdb redis.UniversalClient, key, permit string) float64 {
	t.Helper()
	raw, _ := hex.DecodeString(permit)
	ends, err := rdb.ZScore(context.Background(), permitsKey(key), string(raw)).Result()
	if err != nil {
		t.Fatalf("permit %s: %v", permit, err)
	}
	return ends
}

func records(rdb redis.UniversalClient, key string) int64 {
	return rdb.HLen(context.Background(), recordsKey(key)).Val()
}

func TestR23PermitsLieAsRedissons(t *testing.T) {
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
		if left := lease(t, rdb, key, p); left < 28*time.Second || left > 31*time.Second {
			t.Errorf("got lease %v, want 30 s", left)
		}
		r, ok := parseRecord(rdb.HGet(ctx, "{"+key+"}:leash", p).Val())
		if !ok || r.carrier != a.carrier.name || r.opts != "w" || r.client != "127.0.0.1:5000 test" {
			t.Errorf("got record %+v", r)
		}
		if left := rdb.PTTL(ctx, "{"+key+"}:leash").Val(); left < 28*time.Second || left > 30*time.Second {
			t.Errorf("our hash lives for %v, want 30 s", left)
		}
		q := a.permit(key, "LEASE", "5000")
		if left := lease(t, rdb, key, q); left < 4*time.Second || left > 5*time.Second {
			t.Errorf("got lease %v, want 5 s", left)
		}
		want(t, a.do("SEM.ACQUIRE", key), "$-1")
		a.wantCensus(key, 2, 0, 2)
		want(t, a.do("SEM.RELEASE", key), ":1") // the newest
		wantMessage(t, heard, "1")
		want(t, a.do("SEM.RELEASE", key, q), "-"+msgNoPermit)
		want(t, a.do("SEM.RELEASE", key, strings.ToUpper(p)), ":1")
		wantMessage(t, heard, "2")
		want(t, a.do("SEM.RELEASE", key), "-"+msgNoPermit)
		empty(t, heard)
		if n := rdb.Exists(ctx, "{"+key+"}:timeout").Val() + rdb.Exists(ctx, "{"+key+"}:leash").Val(); n != 0 {
			t.Error("something is left behind")
		}
		if a.carrier.Holds() != 0 || s.Stats().Holds != 0 || a.guarded.Load() {
			t.Error("the connection still holds something")
		}
	})
}

func TestPermitsAreTakenAllOrNone(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 10), connect(t, s)
		six := a.permits(6, key, "COUNT", "6")
		want(t, a.do("SEM.ACQUIRE", key, "COUNT", "5"), "$-1")
		a.wantCensus(key, 10, 4, 6)
		one := a.permits(1, key, "COUNT", "1")
		want(t, a.do("SEM.RELEASE", key, six[0], six[1], one[0], six[0], permitNumber(1)), ":3")
		want(t, a.do(append([]string{"SEM.RELEASE", key}, six[2:]...)...), ":4")
		a.wantCensus(key, 10, 10, 0)
		many := semaphore(t, s, 1000)
		want(t, a.do(append([]string{"SEM.RELEASE", many}, a.permits(1000, many, "COUNT", "1000")...)...), ":1000")
		a.wantCensus(many, 1000, 1000, 0)
	})
}

func TestPermitsAreReleasedFromAnywhere(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		key, a := semaphore(t, s, 5), connect(t, s)
		for _, where := range []*Service{s, other} {
			p := a.permit(key)
			want(t, connect(t, where).do("SEM.RELEASE", key), "-"+msgNoPermit)
			want(t, connect(t, where).do("SEM.RELEASE", key, p), ":1")
			want(t, connect(t, where).do("SEM.RELEASE", key, p), "-"+msgNoPermit)
			eventually(t, 3*time.Second, "the carrier forgets", func() bool { return a.carrier.Holds() == 0 })
		}
		if len(a.losses) != 0 {
			t.Errorf("told as a loss: %s", <-a.losses)
		}
		javaPermit(t, rdb, key, permitNumber(1), time.Time{})
		want(t, a.do("SEM.RELEASE", key, permitNumber(1)), ":1")
		rdb.DecrBy(t.Context(), key, 1) // as Redisson before 3.17 takes one
		rdb.ZAdd(t.Context(), permitsKey(key), redis.Z{Score: 922337203685477, Member: permitNumber(2)})
		want(t, a.do("SEM.RELEASE", key, permitNumber(2)), ":1")
		javaPermit(t, rdb, key, permitNumber(3), time.Now().Add(-time.Second))
		want(t, a.do("SEM.RELEASE", key, permitNumber(3)), "-"+msgNoPermit) // its lease was over, and so it is back
		a.wantCensus(key, 5, 5, 0)
	})
}

func TestR28PermitsReturnWithTheirConnection(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{WatchdogTimeout: 2 * time.Second})
		key, a, b := semaphore(t, s, 5), connect(t, s), connect(t, s)
		a.permits(2, key, "COUNT", "2")
		leased := a.permit(key, "LEASE", "20000")
		b.permit(key)
		a.carrier.End(Release)
		b.wantCensus(key, 5, 3, 2)
		if left := lease(t, rdb, key, leased); left < 18*time.Second {
			t.Errorf("the leased permit has %v left, want its lease", left)
		}
		b.carrier.End(Expire) // R23: a vanished connection's permit comes back when its lease ends
		connect(t, s).wantCensus(key, 5, 3, 2)
		eventually(t, 5*time.Second, "its permit comes back", func() bool {
			_, available, held, _ := connect(t, s).census(key)
			return available == 4 && held == 1
		})
		connect(t, s).permits(4, key, "COUNT", "4")
		if n := records(rdb, key); n != 5 {
			t.Errorf("got %d records, want those of the 5 permits that are out", n)
		}
	})
}

func TestR24PermitsAreRenewed(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{WatchdogTimeout: 3 * time.Second})
		key, a := semaphore(t, s, 400), connect(t, s)
		kept := a.permits(300, key, "COUNT", "300") // more than one batch
		longer := a.permit(key, "TTL", "30000")
		leased := a.permit(key, "LEASE", "1500")
		<-time.After(3500 * time.Millisecond)
		for _, p := range kept {
			if left := lease(t, rdb, key, p); left <= 0 || left > 3100*time.Millisecond {
				t.Fatalf("a renewed permit has %v left", left)
			}
		}
		if left := lease(t, rdb, key, longer); left < 25*time.Second {
			t.Errorf("one of 30 s has %v left", left)
		}
		if lease(t, rdb, key, leased) > 0 || a.carrier.Holds() != 301 {
			t.Errorf("a lease was renewed, or is still held: %d holds", a.carrier.Holds())
		}
		s.RenewAll(t.Context())
		a.wantCensus(key, 400, 99, 301)
		want(t, a.do("SEM.RELEASE", key, leased), "-"+msgNoPermit)
		if len(a.losses) != 0 {
			t.Errorf("told as a loss: %s", <-a.losses)
		}
	})
}

func TestR27ALostPermitIsTold(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{WatchdogTimeout: 2 * time.Second}), context.Background()
		for _, how := range []string{"released by Redisson", "flushed", "overwritten", "record gone"} {
			key, a, b := semaphore(t, s, 3), connect(t, s), connect(t, s)
			p := a.permit(key)
			raw, _ := hex.DecodeString(p)
			kept := b.permit(key)
			switch how {
			case "released by Redisson":
				rdb.ZRem(ctx, permitsKey(key), string(raw))
				rdb.Incr(ctx, key)
			case "flushed":
				rdb.Del(ctx, key, permitsKey(key), recordsKey(key))
			case "overwritten":
				rdb.Set(ctx, permitsKey(key), "poison", 0)
			case "record gone":
				rdb.HDel(ctx, recordsKey(key), p)
			}
			want(t, receive(t, a.losses, 5*time.Second), key+" gone")
			if how == "released by Redisson" || how == "record gone" {
				if left := lease(t, rdb, key, kept); left <= 0 || len(b.losses) != 0 {
					t.Errorf("%s: an innocent permit has %v left", how, left)
				}
			} else {
				want(t, receive(t, b.losses, 5*time.Second), key+" gone")
			}
			want(t, a.do("SEM.RELEASE", key), "-"+msgNoPermit)
			b.carrier.End(Release)
		}
	})
}

func TestR7PermitsOfARepeatedRequest(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		key, a, b, c := semaphore(t, s, 10), connect(t, s), connect(t, s), connect(t, other)
		first := a.permits(3, key, "COUNT", "3", "ID", "r1")
		if again := a.permits(3, key, "COUNT", "3", "ID", "r1"); strings.Join(again, " ") != strings.Join(first, " ") {
			t.Fatalf("got %v when repeated, want %v", again, first)
		}
		a.wantCensus(key, 10, 7, 3)
		if p := a.permit(key, "ID", "r2"); p == first[0] {
			t.Error("two requests got one permit")
		}
		for i, who := range []*conn{b, c} { // within a Leash, and to another one
			if again := who.permits(3, key, "COUNT", "3", "ID", "r1", "BLOCK", "0"); strings.Join(again, " ") != strings.Join(first, " ") {
				t.Fatalf("got %v when repeated elsewhere, want %v", again, first)
			}
			if who.carrier.Holds() != 3 {
				t.Fatalf("got %d holds, want 3", who.carrier.Holds())
			}
			eventually(t, 3*time.Second, "the old carrier forgets", func() bool { return []*conn{a, b}[i].carrier.Holds() == 1-i })
		}
		if len(a.losses)+len(b.losses)+len(a.moved)+len(b.moved) != 0 {
			t.Error("a moved permit was told as a loss")
		}
		b.carrier.End(Release) // R11: nothing of its own is left to be given back
		want(t, a.do("SEM.RELEASE", key), ":1")
		c.wantCensus(key, 10, 7, 3)
		want(t, c.do("SEM.RELEASE", key, first[1]), ":1")
		c.permits(3, key, "COUNT", "3", "ID", "r1") // what is missing is taken anew
		c.wantCensus(key, 10, 7, 3)
		if n := c.carrier.Holds(); n != 3 {
			t.Errorf("got %d holds, want 3", n)
		}
		c.carrier.End(Release)
		a.wantCensus(key, 10, 10, 0)
	})
}

// TestR26ARepeatedRequestFindsALoss: a permit that was taken back behind our back is not quietly taken again.
func TestR26ARepeatedRequestFindsALoss(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 5), connect(t, s)
		two := a.permits(2, key, "COUNT", "2", "ID", "r")
		raw, _ := hex.DecodeString(two[1])
		rdb.ZRem(t.Context(), permitsKey(key), string(raw))
		rdb.Incr(t.Context(), key)
		want(t, a.do("SEM.ACQUIRE", key, "COUNT", "2", "ID", "r"), "-"+msgLost(key, "gone"))
		want(t, receive(t, a.losses, time.Second), key+" gone")
		eventually(t, 5*time.Second, "what was taken anew is given back", func() bool {
			_, available, held, _ := a.census(key)
			return available == 4 && held == 1
		})
		a.carrier.End(Release)
		connect(t, s).wantCensus(key, 5, 5, 0)
	})
}

// TestR26AReleaseElsewhereIsNoLoss: nor is one whose news has not come yet.
func TestR26AReleaseElsewhereIsNoLoss(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		deaf := func(s *Service) { s.ears.news = "nowhere" }
		s, other := leash(t, rdb, Config{}, deaf), leash(t, rdb, Config{})
		key, a, b := semaphore(t, s, 5), connect(t, s), connect(t, other)
		p := a.permit(key, "ID", "r")
		want(t, b.do("SEM.RELEASE", key, p), ":1")
		want(t, p, a.permit(key, "ID", "r"))
		a.wantCensus(key, 5, 4, 1)
		want(t, b.do("SEM.RELEASE", key, p), ":1")
		want(t, p, b.permit(key, "ID", "r"))
		want(t, p, a.permit(key, "ID", "r")) // and from there back here
		if a.carrier.Holds() != 1 || len(a.losses) != 0 {
			t.Errorf("got %d holds, want 1 and no loss", a.carrier.Holds())
		}
		want(t, a.do("SEM.RELEASE", key), ":1")
		a.wantCensus(key, 5, 5, 0)
	})
}

func TestPermitWaitersAreLimited(t *testing.T) {
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{MaxWaiters: 1})
	key, a := semaphore(t, s, 1), connect(t, s)
	p := a.permit(key, "BLOCK", "0") // what need not wait is not refused
	reply := connect(t, s).stands(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
	want(t, a.do("SEM.ACQUIRE", key, "BLOCK", "0"), "-"+msgLimit)
	want(t, a.do("SEM.TAKE", key, "BLOCK", "0"), "-"+msgLimit)
	want(t, a.do("SEM.RELEASE", key, p), ":1")
	permitOf(t, receive(t, reply, 5*time.Second))
}

func TestR7LostRepliesOfPermits(t *testing.T) {
	s, straight, p := faulty(t, Config{})
	rdb := straight.rdb
	for _, before := range []bool{false, true} {
		key, a := semaphore(t, straight, 5), connect(t, s)
		want(t, a.do("SEM.RELEASE", key, a.permit(key)), ":1") // Redis has the scripts
		arm := p.DropAfter
		if before {
			arm = p.DropBefore
		}
		fault := arm(running(permitAcquireScript, key))
		got := a.permits(2, key, "COUNT", "2")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		a.wantCensus(key, 5, 3, 2)
		fault = arm(running(permitReleaseScript, key))
		want(t, a.do("SEM.RELEASE", key, got[0]), ":1")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		a.wantCensus(key, 5, 4, 1)
		foreign := connect(t, straight).permit(key)
		fault = arm(running(permitRevokeScript, key))
		want(t, a.do("SEM.RELEASE", key, foreign), ":1")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		want(t, rdb.Get(t.Context(), key).Val(), "4")
	}
}

func TestR26UnknownPermitsAreUndone(t *testing.T) {
	s, straight, p := faulty(t, Config{UpstreamTimeout: time.Second, WatchdogTimeout: 2 * time.Second})
	key, a := semaphore(t, straight, 5), connect(t, s)
	a.permit(key, "ID", "kept")
	p.Freeze()
	want(t, a.do("SEM.ACQUIRE", key, "COUNT", "2"), "-"+msgTimeout)
	p.Thaw()
	<-time.After(2500 * time.Millisecond) // a copy that was held up may come between the first undo and the second
	eventually(t, 10*time.Second, "it is undone", func() bool { return rdbGet(t, straight, key) == "4" && s.Stats().Undone == 1 })
	late := a.carrier.newPermitTry(wish{mode: permit, key: key, ttl: 3 * time.Second}, 2)
	late.undo() // nothing was heard of it
	<-time.After(100 * time.Millisecond)
	late.send(time.Now().Add(5 * time.Second)) // and now a copy arrives
	connect(t, straight).wantCensus(key, 5, 2, 3)
	eventually(t, 10*time.Second, "the copy is undone too", func() bool { return rdbGet(t, straight, key) == "4" })
	if a.carrier.Holds() != 1 || len(a.losses) != 0 {
		t.Error("what was held was touched")
	}
}

func rdbGet(t testing.TB, s *Service, key string) string { return s.rdb.Get(t.Context(), key).Val() }

func TestPermitWaitersAreWoken(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}, patient), leash(t, rdb, Config{}, patient)
		key, a, b := semaphore(t, s, 1), connect(t, s), connect(t, other)
		p := a.permit(key)
		reply := b.stands(other, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		eventually(t, 5*time.Second, "b listens", func() bool { return listeners(t, rdb, permitChannel(key)) == 1 })
		want(t, a.do("SEM.RELEASE", key, p), ":1")
		q := permitOf(t, woken(t, reply))
		if _, _, _, waiters := b.census(key); waiters != 0 || q == p {
			t.Error("the waiter still stands there, or got the old permit")
		}
		began := time.Now()
		want(t, a.do("SEM.ACQUIRE", key, "BLOCK", "200"), "$-1")
		if took := time.Since(began); took < 200*time.Millisecond || took > soon {
			t.Errorf("BLOCK 200 took %v", took)
		}
		b.carrier.End(Release)
		a.permit(key)
	})
}

// TestR17APermitIsTakenWhenItsLeaseEnds: no message will come from a JVM that died.
func TestR17APermitIsTakenWhenItsLeaseEnds(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, patient)
		key := semaphore(t, s, 1)
		began := time.Now()
		javaPermit(t, rdb, key, permitNumber(1), began.Add(400*time.Millisecond))
		connect(t, s).permit(key, "BLOCK", "0")
		if took := time.Since(began); took < 350*time.Millisecond || took > soon {
			t.Errorf("it took %v, want the rest of the lease", took)
		}
		if n := rdb.ZCard(t.Context(), permitsKey(key)).Val(); n != 1 {
			t.Errorf("%d permits are out, want 1", n)
		}
	})
}

func TestR18PermitsAndCountersStandInOneLine(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 2), connect(t, s)
		held := a.permits(2, key, "COUNT", "2")
		two := connect(t, s).stands(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "COUNT", "2", "BLOCK", "0")
		one := connect(t, s).stands(s, 2, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		plain := connect(t, s).stands(s, 3, permitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
		want(t, a.do("SEM.RELEASE", key, held[0]), ":1")
		select {
		case r := <-one:
			t.Fatalf("the second in line got %q first", r)
		case <-time.After(1500 * time.Millisecond):
		}
		want(t, a.do("SEM.RELEASE", key, held[1]), ":1")
		wantPrefix(t, receive(t, two, 5*time.Second), "*2")
		want(t, a.do("SEM.GIVE", key, "2"), ":2") // one message serves both
		permitOf(t, receive(t, one, 5*time.Second))
		want(t, receive(t, plain, 5*time.Second), ":1")
	})
}

func TestR19APermitThatCannotBeToldIsGivenBack(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a, b := semaphore(t, s, 1), connect(t, s), connect(t, s)
		p := b.permit(key)
		reply := a.stands(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		a.gone()
		want(t, receive(t, reply, time.Second), "-"+msgGone)
		if s.lines.waiting(permitsOf(key)) != 0 {
			t.Error("it still stands in line")
		}
		want(t, b.do("SEM.RELEASE", key, p), ":1")
		want(t, a.do("SEM.ACQUIRE", key), "-"+msgGone)
		b.permit(key, "BLOCK", "5000")
		if a.carrier.Holds() != 0 || a.guarded.Load() {
			t.Error("who is gone holds a permit")
		}
	})
}

// TestPermitsOfAKeyWithTTL: when the semaphore itself goes, all of it goes.
func TestPermitsOfAKeyWithTTL(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		key, a := semaphore(t, s, 2), connect(t, s)
		rdb.PExpire(ctx, key, 5*time.Second)
		p := a.permit(key)
		for _, k := range []string{key, permitsKey(key), recordsKey(key)} {
			if left := rdb.PTTL(ctx, k).Val(); left < time.Second || left > 5*time.Second {
				t.Errorf("%s lives for %v, want 5 s", k, left)
			}
		}
		want(t, a.do("SEM.RELEASE", key, p), ":1")
		if left := rdb.PTTL(ctx, key).Val(); left < time.Second || left > 5*time.Second {
			t.Errorf("the semaphore lives for %v, want 5 s", left)
		}
	})
}

// TestRecordsOfReapedPermitsAreDropped: Redisson takes a permit back whose lease is over, and does not know of our record.
func TestRecordsOfReapedPermitsAreDropped(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		key, a := semaphore(t, s, 4), connect(t, s)
		for range 3 {
			a.permit(key, "LEASE", "60000")
		}
		rdb.Del(ctx, permitsKey(key))
		rdb.IncrBy(ctx, key, 3)
		a.permit(key)
		if n := records(rdb, key); n != 1 {
			t.Errorf("got %d records, want that of the permit that is out", n)
		}
	})
}

func TestR13PermitsComeBackAtTheMemoryLimit(t *testing.T) {
	rdb, ctx := dialServer(t, sharedServer(t).Addr), context.Background()
	s := leash(t, rdb, Config{WatchdogTimeout: 3 * time.Second})
	key, a := semaphore(t, s, 5), connect(t, s)
	held := a.permits(3, key, "COUNT", "3")
	other := connect(t, leash(t, rdb, Config{}))
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	want(t, a.do("SEM.ACQUIRE", key), "-OOM command not allowed when used memory > 'maxmemory'.")
	<-time.After(3500 * time.Millisecond) // renewal goes on
	want(t, a.do("SEM.RELEASE", key, held[0]), ":1")
	want(t, other.do("SEM.RELEASE", key, held[1]), ":1")
	a.carrier.End(Release)
	other.wantCensus(key, 5, 5, 0)
	if len(a.losses) != 0 {
		t.Errorf("told as a loss: %s", <-a.losses)
	}
}

// TestPermitsAreExact: two Leashes, 12 connections that want one or two of three permits, some of which vanish while they hold them.
func TestPermitsAreExact(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes := []*Service{leash(t, rdb, Config{}), leash(t, rdb, Config{})}
		key := semaphore(t, leashes[0], 3)
		var wg sync.WaitGroup
		var inside atomic.Int64
		for i := range 12 {
			wg.Go(func() {
				c, n := connect(t, leashes[i%2]), i%3/2+1
				for round := range 25 {
					got := c.permits(n, key, "COUNT", strconv.Itoa(n), "BLOCK", "0")
					if all := inside.Add(int64(n)); all > 3 {
						t.Errorf("%d permits of 3 are out", all)
					}
					inside.Add(-int64(n))
					if round%5 == 4 {
						c.carrier.End(Release)
						c = connect(t, leashes[i%2])
					} else if reply := c.do(append([]string{"SEM.RELEASE", key}, got...)...); reply != ":"+strconv.Itoa(n) {
						t.Errorf("got %q on release", reply)
					}
				}
			})
		}
		wg.Wait()
		a := connect(t, leashes[0])
		eventually(t, 5*time.Second, "all are back", func() bool { _, available, _, _ := a.census(key); return available == 3 })
		if records(rdb, key) != 0 || leashes[0].Stats().Holds+leashes[1].Stats().Holds != 0 {
			t.Error("something is left behind")
		}
	})
}

func TestPermitsAreNoLocks(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 2), connect(t, s)
		p := a.permit(key)
		want(t, a.do("LOCK.RELEASE", key), "-"+msgNotHeld)
		want(t, a.do("LOCK.TTL", key), ":-2")
		want(t, a.do("LOCK.ACQUIRE", key, "BLOCK", "10"), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		a.token(p)
		want(t, a.do("SEM.ACQUIRE", p), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		want(t, a.do("SEM.RELEASE", p, p), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		want(t, a.do("SEM.RELEASE", key), ":1")
	})
}

func TestR31DrainGrantsNoMorePermits(t *testing.T) {
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	key, a := semaphore(t, s, 1), connect(t, s)
	p := a.permit(key)
	waiting := connect(t, s).stands(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
	s.Drain()
	want(t, receive(t, waiting, time.Second), "-"+msgDraining)
	want(t, a.do("SEM.ACQUIRE", key), "-"+msgDraining)
	want(t, a.do("SEM.RELEASE", key, p), ":1")
}

func TestR8PermitsLieInTheirDatabase(t *testing.T) {
	in := databases(t)
	s := leash(t, in(0), Config{Database: in, WatchdogTimeout: 2 * time.Second})
	key, a := semaphore(t, s, 1), connectTo(t, s, 0)
	b := connectTo(t, s, 3)
	want(t, b.do("SEM.INIT", key, "1"), ":1")
	p, q := a.permit(key), b.permit(key)
	want(t, a.do("SEM.RELEASE", key, q), "-"+msgNoPermit)
	<-time.After(2500 * time.Millisecond) // both are renewed
	want(t, b.do("SEM.RELEASE", key, q), ":1")
	want(t, a.do("SEM.RELEASE", key, p), ":1")
}

func TestPermitArguments(t *testing.T) {
	rdb := dialServer(t, sharedServer(t).Addr)
	s := leash(t, rdb, Config{})
	key, a := semaphore(t, s, 5), connect(t, s)
	for _, row := range []struct{ want, args string }{
		{"ERR wrong number of arguments for 'sem.acquire' command", "SEM.ACQUIRE"},
		{"ERR wrong number of arguments for 'sem.release' command", "SEM.RELEASE"},
		{msgCount, "SEM.ACQUIRE % COUNT 0"},
		{msgCount, "SEM.ACQUIRE % COUNT 1001"},
		{msgNegative, "SEM.ACQUIRE % COUNT -1"},
		{msgNotInteger, "SEM.ACQUIRE % COUNT x"},
		{msgSyntax, "SEM.ACQUIRE % COUNT"},
		{msgSyntax, "SEM.ACQUIRE % OWNER me"},
		{msgSyntax, "SEM.ACQUIRE % READ"},
		{msgSyntax, "SEM.ACQUIRE % 2"},
		{msgLeaseAndTTL, "SEM.ACQUIRE % LEASE 500 TTL 500"},
		{"ERR invalid expire time in 'sem.acquire' command", "SEM.ACQUIRE % LEASE 0"},
		{"ERR invalid TTL, a hold needs at least 100 ms to be renewed in", "SEM.ACQUIRE % TTL 99"},
		{msgBlockNegative, "SEM.ACQUIRE % BLOCK -1"},
		{msgID, "SEM.ACQUIRE % ID " + strings.Repeat("x", 129)},
		{msgPermit, "SEM.RELEASE % x"},
		{msgPermit, "SEM.RELEASE % " + permitNumber(1) + "0"},
		{msgPermit, "SEM.RELEASE % " + permitNumber(1) + " g" + permitNumber(1)[1:]},
	} {
		if got := a.do(strings.Fields(strings.ReplaceAll(row.args, "%", key))...); got != "-"+row.want {
			t.Errorf("%s: got %q, want %q", row.args, got, row.want)
		}
	}
	a.wantCensus(key, 5, 5, 0)
}

// renewsPermits checks that a Leash renews the permits of some keys when it is asked to.
func (s *Service) renewsPermits(t *testing.T, permits map[string]string) {
	t.Helper()
	before := make(map[string]float64)
	for key, p := range permits {
		before[key] = permitScore(t, s.rdb, key, p)
	}
	<-time.After(2 * time.Millisecond) // scores are whole ms
	s.RenewAll(t.Context())
	for key, p := range permits {
		if permitScore(t, s.rdb, key, p) <= before[key] {
			t.Errorf("the permit of %s was not renewed", key)
		}
	}
}

// TestR14PermitsInASlotInMigration: while a semaphore's keys lie on two nodes its permits are kept, and none is granted or returns.
func TestR14PermitsInASlotInMigration(t *testing.T) {
	rdb := dialCluster(t, sharedCluster(t).Addrs()...)
	s := leash(t, rdb, Config{UpstreamTimeout: 500 * time.Millisecond})
	tag := "{" + newKey() + "}"
	a, c := connect(t, s), connect(t, leash(t, rdb, Config{}))
	permits := make(map[string]string)
	for i := range 3 {
		key := tag + strconv.Itoa(i)
		want(t, a.do("SEM.INIT", key, "3"), ":1")
		a.permit(key, "LEASE", "60000")
		permits[key] = a.permit(key)
	}
	m, finish := moving(t, tag)
	if err := m.MoveKey(tag+"0", permitsKey(tag+"1"), recordsKey(tag+"2")); err != nil {
		t.Fatal(err)
	}
	for key := range permits {
		want(t, c.do("SEM.ACQUIRE", key), "$-1")
	}
	s.renewsPermits(t, permits)
	if len(a.losses) != 0 {
		t.Fatalf("lost %s", <-a.losses)
	}
	want(t, a.do("SEM.RELEASE", tag+"0", permits[tag+"0"]), "-"+msgReleaseLater)
	finish()
	eventually(t, 10*time.Second, "it is given back", func() bool {
		_, available, _, _ := c.census(tag + "0")
		return available == 2
	})
	want(t, a.do("SEM.RELEASE", tag+"1"), ":1")
	a.carrier.End(Release)
	for key := range permits {
		c.wantCensus(key, 3, 2, 1)
	}
}

// TestPermitLeaseOfRedisson: what updateLeaseTime of a Java service does to a permit of ours.
func TestPermitLeaseOfRedisson(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 2), connect(t, s)
		for _, p := range []string{a.permit(key, "LEASE", "3000"), a.permit(key)} {
			raw, _ := hex.DecodeString(p)
			rdb.ZAdd(t.Context(), permitsKey(key), redis.Z{Score: 922337203685477, Member: string(raw)})
		}
		s.RenewAll(t.Context())
		<-time.After(3500 * time.Millisecond)
		if a.carrier.Holds() != 2 || len(a.losses) != 0 {
			t.Error("a prolonged permit was forgotten, or lost")
		}
		want(t, a.do("SEM.RELEASE", key), ":1")
		want(t, a.do("SEM.RELEASE", key), ":1")
	})
}

func TestPermitsSurviveAScriptFlush(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 2), connect(t, s)
		flush := func() {
			if err := each(rdb, func(c *redis.Client) error { return c.ScriptFlush(t.Context()).Err() }); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			p := a.permit(key)
			flush()
			s.renewsPermits(t, map[string]string{key: p})
		}
		flush()
		want(t, a.do("SEM.RELEASE", key), ":1")
		flush()
		a.carrier.End(Release)
		connect(t, s).wantCensus(key, 2, 2, 0)
		if len(a.losses) != 0 {
			t.Errorf("lost %s", <-a.losses)
		}
	})
}
