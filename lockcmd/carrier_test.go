package lockcmd

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR11CarrierNamesAreNeverUsedAgain(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	for range 20 {
		key := newKey()
		a := connect(t, s)
		first := a.token(key, "OWNER", "x")
		a.carrier.End(Release)
		same := Client{Name: testClientName}
		one, two := s.NewCarrier(1, same, a, a), s.NewCarrier(1, same, a, a)
		if a.carrier = one; one.Name == two.Name {
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
	if took := time.Since(began); took < hold.EndTimeout || took > soon {
		t.Errorf("the end took %v while Redis was silent, want %v", took, hold.EndTimeout)
	}
	a.carrier = s.NewCarrier(1, Client{Name: testClientName}, a, a)
	want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "x"), "-"+refusal.Elsewhere)
	late.Disarm()
	late.Release()
	eventually(t, time.Second, "the hold ends", func() bool { return !exists(t, straight.Redis.Redis, key) })
	a.token(key, "OWNER", "x")
	want(t, connect(t, straight).do("LOCK.ACQUIRE", key), "$-1")
}

// allHolds returns the holds of a Leash, the oldest first.
func (s *Service) allHolds() []*hold.Hold {
	var part [1 << 17]*hold.Hold
	n, _, _ := s.Holds.Part(0, part[:])
	slices.SortFunc(part[:n], func(a, b *hold.Hold) int { return cmp.Compare(a.Token, b.Token) })
	return part[:n]
}

// last returns the carrier's newest hold of any lock that match accepts.
func (c *Carrier) last(match func(*hold.Hold) bool) *hold.Hold {
	for _, h := range slices.Backward(c.service.allHolds()) {
		if h.Carrier == &c.Carrier.Carrier && h.State() != hold.Over && match(h) {
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
				g := hold.Grant{Key: strconv.Itoa(i), Mode: script.Plain, Token: 1, TTL: time.Minute}
				c.carrier.holdAs(b, g, time.Now().Add(time.Minute))
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
func (c *Carrier) oldest() *hold.Hold {
	all := c.service.allHolds()
	return all[slices.IndexFunc(all, func(h *hold.Hold) bool { return h.Carrier == &c.Carrier.Carrier })]
}
