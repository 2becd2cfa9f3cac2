package hold_test

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// TestR24AMillionHoldsFit: The hold struct fills a size class of Go's allocator exactly. There may
// be a million holds.
func TestR24AMillionHoldsFit(t *testing.T) {
	t.Parallel()
	if size := reflect.TypeFor[hold.Hold]().Size(); size > 128 {
		t.Errorf("a hold takes %d bytes, want 128 at most: what only few have belongs into extra", size)
	}
}

// TestR24HoldsTakeLittleMemory: Limits the memory that Leash keeps for a hold with a key of 18
// bytes. The process may use 400 bytes for each hold. The garbage collector needs the rest.
func TestR24HoldsTakeLittleMemory(t *testing.T) {
	s := locktest.IdleService(t)
	const carriers, each = 40, 1000
	for _, row := range []struct {
		name, owner string
		most        int64
	}{
		{"an owner of its own", "", 190},
		{"a named owner", "16 bytes of name", 195},
	} {
		conns := make([]*locktest.Client, carriers)
		for i := range conns {
			conns[i] = locktest.Connect(t, s)
		}
		before := heapInUse()
		for i := range conns {
			for n := range each {
				conns[i].HoldAs(t, hold.Grant{
					Key: fmt.Sprintf("bench:hold:%07d", i*each+n), Mode: script.Plain, Owner: row.owner, Token: 1,
					TTL: locktest.WatchdogTimeout,
				}, time.Now().Add(locktest.WatchdogTimeout))
			}
		}
		if took := (heapInUse() - before) / (carriers * each); took > row.most {
			t.Errorf("a hold of %s takes %d bytes, want %d at most", row.name, took, row.most)
		} else {
			t.Logf("a hold of %s takes %d bytes", row.name, took)
		}
		for _, c := range conns {
			c.Carrier.End(lockcmd.Expire)
		}
	}
}

// heapInUse returns how many bytes are reachable.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
