package lockcmd_test

import (
	"strconv"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR11CarrierNamesAreNeverUsedAgain(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	for range 20 {
		key := locktest.NewKey()
		a := locktest.Connect(t, s)
		first := a.Token(key, "OWNER", "x")
		a.Carrier.End(lockcmd.Release)
		same := lockcmd.Client{Name: locktest.TestClientName}
		one, two := s.NewCarrier(1, same, a, a), s.NewCarrier(1, same, a, a)
		if a.Carrier = one; one.Name == two.Name {
			t.Fatal("two carriers have one name")
		}
		// Redis has answered when End returns
		if token := a.Token(key, "OWNER", "x"); token <= first {
			t.Fatalf("got token %d after %d", token, first)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	}
}

func TestR11ReleaseOfAnEndedCarrierLeavesTheNextOneAlone(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: time.Minute})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key, "OWNER", "x")
	late := p.DropBefore(locktest.Running(script.ReleaseScript, key), faultproxy.Always())
	began := time.Now()
	a.Carrier.End(lockcmd.Release)
	if took := time.Since(began); took < hold.EndTimeout || took > locktest.Soon {
		t.Errorf("the end took %v while Redis was silent, want %v", took, hold.EndTimeout)
	}
	a.Carrier = s.NewCarrier(1, lockcmd.Client{Name: locktest.TestClientName}, a, a)
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "x"), "-"+refusal.Elsewhere)
	late.Disarm()
	locktest.Eventually(t, time.Second, "the hold ends",
		func() bool { return !locktest.Exists(t, locktest.RedisOf(straight), key) })
	a.Token(key, "OWNER", "x")
	locktest.Want(t, locktest.Connect(t, straight).Do("LOCK.ACQUIRE", key), "$-1")
}

// BenchmarkNewest measures how long a connection searches for its hold of a key.
func BenchmarkNewest(b *testing.B) {
	for _, holds := range []int{1, 1000, 100_000} {
		b.Run(strconv.Itoa(holds), func(b *testing.B) {
			s := locktest.IdleService(b)
			c := locktest.Connect(b, s)
			for i := range holds {
				g := hold.Grant{Key: strconv.Itoa(i), Mode: script.Plain, Token: 1, TTL: time.Minute}
				c.HoldAs(b, g, time.Now().Add(time.Minute))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.Carrier.NewestReported(locktest.LockOf(strconv.Itoa(i%holds)), hold.Selector{}.Means) == nil {
					b.Fatal("there is none")
				}
			}
		})
	}
}
