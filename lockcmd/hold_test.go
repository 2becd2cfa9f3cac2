package lockcmd

import (
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"testing"
	"time"
)

// TestR24AMillionHoldsFit: what a hold is made of is a whole size class of Go's, and there may be a
// million of it.
func TestR24AMillionHoldsFit(t *testing.T) {
	t.Parallel()
	if size := reflect.TypeFor[hold]().Size(); size > 128 {
		t.Errorf("a hold takes %d bytes, want 128 at most: what only few have belongs into extra", size)
	}
}

// TestR24AHoldTakesLittle: all that is kept of a hold, with a key of 18 bytes, counts. Of the 400
// bytes that a hold may cost the process as a whole, the garbage collector's headroom has the rest.
func TestR24AHoldTakesLittle(t *testing.T) {
	s := idleService(t)
	const carriers, each = 100, 1000
	for _, row := range []struct {
		name, owner string
		most        int64
	}{
		{"an owner of its own", "", 190},
		{"a named owner", "16 bytes of name", 195},
	} {
		conns := make([]*conn, carriers)
		for i := range conns {
			conns[i] = connect(t, s)
		}
		before := heapInUse()
		for i := range conns {
			for n := range each {
				opts := acquireOptions{key: fmt.Sprintf("bench:hold:%07d", i*each+n), mode: plain, owner: row.owner, ttl: s.cfg.WatchdogTimeout}
				h, until := conns[i].carrier.newAcquisition(opts, nil).hold(result{kind: granted, token: 1, left: opts.ttl, sent: time.Now()})
				if !conns[i].carrier.attachHold(t.Context(), h, "", true, until) {
					t.Fatal("it is not held")
				}
			}
		}
		if took := (heapInUse() - before) / (carriers * each); took > row.most {
			t.Errorf("a hold of %s takes %d bytes, want %d at most", row.name, took, row.most)
		} else {
			t.Logf("a hold of %s takes %d bytes", row.name, took)
		}
		for _, c := range conns {
			c.carrier.End(Expire)
		}
	}
}

// idleService is a Service that does nothing by itself.
func idleService(t testing.TB) *Service {
	rdb, log := dialServer(t, sharedServer(t).Addr), slog.New(slog.DiscardHandler)
	s, err := New(Config{}, rdb, listening(t, rdb, log), log)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// heapInUse is how many bytes can be reached.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
