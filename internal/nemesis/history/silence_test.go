package history

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCheckSilentLosses: a lock may be lost by silence only where there was a fault.
func TestCheckSilentLosses(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	cut := func(name string, upstream bool, where ...string) *FaultPeriod {
		return &FaultPeriod{name: name, Upstream: upstream, places: where, From: after(15), To: after(18)}
	}
	log := filepath.Join(t.TempDir(), "log")
	line := "time=" + after(20).Format(time.RFC3339) + ` level=WARN msg="lock lost" key=lock:1 db=0 owner=me token=7 reason=silence client=127.0.0.1:1` + "\n"
	if err := os.WriteFile(log, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	stayed := []MasterPeriod{{"here", start}}
	for _, row := range []struct {
		name   string
		seats  []MasterPeriod
		spells []*FaultPeriod
		wrong  bool
	}{
		{"nothing was broken", stayed, nil, true},
		{"a fault of its master", stayed, []*FaultPeriod{cut("network: cut", true, "here")}, false},
		{"a fault of another master", stayed, []*FaultPeriod{cut("network: cut", true, "there")}, true},
		{"faults of another master and of its own", stayed, []*FaultPeriod{cut("network: cut", true, "there"), cut("redis: stopped", true, "here")}, false},
		{"a fault of its master, shortly before", stayed, []*FaultPeriod{{Upstream: true, places: []string{"here"}, From: after(1), To: after(14)}}, false},
		{"a fault of its master, too long before", stayed, []*FaultPeriod{{Upstream: true, places: []string{"here"}, From: after(1), To: after(2)}}, true},
		{"a fault of an unknown place", stayed, []*FaultPeriod{cut("this machine stalled", true)}, false},
		{"a fault of a slot", stayed, []*FaultPeriod{cut("redis: slot moved", true, "the slot of lock:2", "there")}, false},
		{"a fault of its Leash", stayed, []*FaultPeriod{cut("leash: stopped", false, "leash 1")}, false},
		{"a fault of another Leash", stayed, []*FaultPeriod{cut("leash: stopped", false, "leash 2")}, true},
		{"a fault of its clients", stayed, []*FaultPeriod{cut("clients: network cut", false, "leash 1")}, true},
		{"the lock was at another master before", []MasterPeriod{{"there", start}, {"here", after(18)}}, nil, false},
		{"the lock was at another master afterwards", []MasterPeriod{{"here", start}, {"there", after(21)}}, []*FaultPeriod{cut("network: cut", true, "there")}, true},
		{"the lock was never seen", nil, nil, false},
	} {
		h := NewHistory(&FaultTimeline{Periods: row.spells}, log)
		if err := h.CheckSilentLosses(map[string][]MasterPeriod{"lock:1": row.seats}); (err != nil) != row.wrong {
			t.Errorf("%s: got %v", row.name, err)
		}
	}
	if _, _, ok := lostBySilence(`time=2026-01-02T03:04:05Z level=WARN msg="lock lost" key=a db=0 reason=gone client=1`); ok {
		t.Error("a loss with the reason gone was taken for silence")
	}
}
