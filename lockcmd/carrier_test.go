package lockcmd

import (
	"testing"
	"time"

	"leash/internal/faultproxy"
)

func TestR11CarrierNamesAreNeverUsedAgain(t *testing.T) {
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	for range 100 {
		key := newKey()
		a := connect(t, s)
		first := a.token(key, "OWNER", "x")
		a.carrier.End(Release)
		if a.carrier = s.NewCarrier(1, a); a.carrier.name == s.NewCarrier(1, a).name {
			t.Fatal("two carriers have one name")
		}
		if token := a.token(key, "OWNER", "x"); token <= first { // at once: End has waited for Redis's answer
			t.Fatalf("got token %d after %d", token, first)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
	}
}

func TestR11ReleaseOfAnEndedCarrierLeavesTheNextOneAlone(t *testing.T) {
	s, straight, p := faulty(t, Config{UpstreamTimeout: time.Minute})
	a, key := connect(t, s), newKey()
	a.token(key, "OWNER", "x")
	late := p.HoldBefore(running(releaseScript, key), faultproxy.Always())
	began := time.Now()
	a.carrier.End(Release)
	if took := time.Since(began); took < endPatience || took > soon {
		t.Errorf("the end took %v while Redis was silent, want %v", took, endPatience)
	}
	a.carrier = s.NewCarrier(1, a)
	want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "x"), "-"+msgElsewhere)
	late.Disarm()
	late.Release()
	eventually(t, time.Second, "the hold ends", func() bool { return !exists(t, straight.rdb, key) })
	a.token(key, "OWNER", "x")
	want(t, connect(t, straight).do("LOCK.ACQUIRE", key), "$-1")
}
