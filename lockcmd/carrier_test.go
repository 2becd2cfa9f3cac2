package lockcmd

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/lockcmd/script"
)

func TestR11CarrierNamesAreNeverUsedAgain(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	for range 100 {
		key := newKey()
		a := connect(t, s)
		first := a.token(key, "OWNER", "x")
		a.carrier.End(Release)
		one, two := s.NewCarrier(1, Client{}, a, a), s.NewCarrier(1, Client{}, a, a)
		if a.carrier = one; one.name == two.name {
			t.Fatal("two carriers have one name")
		}
		// Redis has answered when End returns
		if token := a.token(key, "OWNER", "x"); token <= first {
			t.Fatalf("got token %d after %d", token, first)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
	}
}

func TestR11ReleaseOfAnEndedCarrierLeavesTheNextOneAlone(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: time.Minute})
	a, key := connect(t, s), newKey()
	a.token(key, "OWNER", "x")
	late := p.HoldBefore(running(script.ReleaseScript, key), faultproxy.Always())
	began := time.Now()
	a.carrier.End(Release)
	if took := time.Since(began); took < endTimeout || took > soon {
		t.Errorf("the end took %v while Redis was silent, want %v", took, endTimeout)
	}
	a.carrier = s.NewCarrier(1, Client{Name: testClientName}, a, a)
	want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "x"), "-"+msgElsewhere)
	late.Disarm()
	late.Release()
	eventually(t, time.Second, "the hold ends", func() bool { return !exists(t, straight.redis.Redis, key) })
	a.token(key, "OWNER", "x")
	want(t, connect(t, straight).do("LOCK.ACQUIRE", key), "$-1")
}

// TestNewestHoldOfACarrierAndKey: Newest returns the newest hold of one connection for one key,
// whether it searches the holds of the connection or those of the key.
func TestNewestHoldOfACarrierAndKey(t *testing.T) {
	t.Parallel()
	s := idleService(t)
	a, b, until := connect(t, s), connect(t, s), time.Now().Add(time.Minute)
	take := func(c *conn, key string, db int) *hold {
		opts := acquireOptions{key: key, db: db, mode: script.Read, ttl: time.Minute}
		h, _ := c.carrier.newAcquisition(opts, nil).hold(result{kind: granted, token: 1, left: opts.ttl,
			sent: time.Now()})
		if !c.carrier.attachHold(t.Context(), h, "", true, until) {
			t.Fatal("it is not held")
		}
		return h
	}
	const key = "popular"
	any := func(*hold) bool { return true }
	newest := func(c *conn, want *hold) {
		t.Helper()
		if got := c.carrier.newest(lockOf(key), any); got != want {
			t.Errorf("got %p, want %p", got, want)
		}
	}
	newest(a, nil)
	first := take(a, key, 0)
	second := take(a, key, 0)
	take(a, key, 1)
	others := []*hold{take(b, key, 0)}
	newest(a, second)
	for range 100 { // the key has more holds than the connection
		others = append(others, take(b, key, 0))
	}
	newest(a, second)
	for i := range 1000 { // the key has fewer holds than the connection
		take(a, strconv.Itoa(i), 0)
	}
	newest(a, second)
	second.carrier.mu.Lock()
	second.applyLocked(dropped, "")
	second.carrier.mu.Unlock() // the index still contains it
	newest(a, first)
	newest(b, others[len(others)-1])
	a.carrier.End(Expire)
	newest(a, nil)
}

// last returns the carrier's newest hold of any lock that match accepts.
func (c *Carrier) last(match func(*hold) bool) *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range slices.Backward(c.holdsLocked()) {
		if match(h) {
			return h
		}
	}
	return nil
}

// BenchmarkNewest measures how long a connection searches for its hold of a key.
func BenchmarkNewest(b *testing.B) {
	for _, holds := range []int{1, 1000, 100_000} {
		b.Run(strconv.Itoa(holds), func(b *testing.B) {
			s := idleService(b)
			c := connect(b, s)
			for i := range holds {
				opts := acquireOptions{key: strconv.Itoa(i), mode: script.Plain, ttl: time.Minute}
				h, until := c.carrier.newAcquisition(opts, nil).hold(result{kind: granted, token: 1, left: opts.ttl,
					sent: time.Now()})
				c.carrier.attachHold(b.Context(), h, "", true, until)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.carrier.ownHold(strconv.Itoa(i%holds), options{}) == nil {
					b.Fatal("there is none")
				}
			}
		})
	}
}

// oldest returns the carrier's oldest hold.
func (c *Carrier) oldest() *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holdsLocked()[0]
}
