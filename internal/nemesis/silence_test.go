package main

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
	cut := func(name string, upstream bool, where ...string) *faultPeriod {
		return &faultPeriod{name: name, upstream: upstream, places: where, from: after(15), to: after(18)}
	}
	log := filepath.Join(t.TempDir(), "log")
	line := "time=" + after(20).Format(time.RFC3339) + ` level=WARN msg="lock lost" key=lock:1 db=0 owner=me token=7 reason=silence client=127.0.0.1:1` + "\n"
	if err := os.WriteFile(log, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	stayed := []masterPeriod{{"here", start}}
	for _, row := range []struct {
		name   string
		seats  []masterPeriod
		spells []*faultPeriod
		wrong  bool
	}{
		{"nothing was broken", stayed, nil, true},
		{"a fault of its master", stayed, []*faultPeriod{cut("network: cut", true, "here")}, false},
		{"a fault of another master", stayed, []*faultPeriod{cut("network: cut", true, "there")}, true},
		{"faults of another master and of its own", stayed, []*faultPeriod{cut("network: cut", true, "there"), cut("redis: stopped", true, "here")}, false},
		{"a fault of its master, shortly before", stayed, []*faultPeriod{{upstream: true, places: []string{"here"}, from: after(1), to: after(14)}}, false},
		{"a fault of its master, too long before", stayed, []*faultPeriod{{upstream: true, places: []string{"here"}, from: after(1), to: after(2)}}, true},
		{"a fault of an unknown place", stayed, []*faultPeriod{cut("this machine stalled", true)}, false},
		{"a fault of a slot", stayed, []*faultPeriod{cut("redis: slot moved", true, "the slot of lock:2", "there")}, false},
		{"a fault of its Leash", stayed, []*faultPeriod{cut("leash: stopped", false, "leash 1")}, false},
		{"a fault of another Leash", stayed, []*faultPeriod{cut("leash: stopped", false, "leash 2")}, true},
		{"a fault of its clients", stayed, []*faultPeriod{cut("clients: network cut", false, "leash 1")}, true},
		{"the lock was at another master before", []masterPeriod{{"there", start}, {"here", after(18)}}, nil, false},
		{"the lock was at another master afterwards", []masterPeriod{{"here", start}, {"there", after(21)}}, []*faultPeriod{cut("network: cut", true, "there")}, true},
		{"the lock was never seen", nil, nil, false},
	} {
		h := newHistory(&faultTimeline{periods: row.spells}, log)
		if err := h.checkSilentLosses(map[string][]masterPeriod{"lock:1": row.seats}); (err != nil) != row.wrong {
			t.Errorf("%s: got %v", row.name, err)
		}
	}
	if _, _, ok := lostBySilence(`time=2026-01-02T03:04:05Z level=WARN msg="lock lost" key=a db=0 reason=gone client=1`); ok {
		t.Error("a loss with the reason gone was taken for silence")
	}
}
