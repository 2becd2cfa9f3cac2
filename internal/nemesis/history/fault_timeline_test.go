package history

import (
	"testing"
	"time"
)

func TestSlotMoving(t *testing.T) {
	at := time.Now()
	after := func(seconds int) time.Time { return at.Add(time.Duration(seconds) * time.Second) }
	w := &FaultTimeline{Periods: []*FaultPeriod{{name: "redis: slot moved", places: []string{"the slot of rw:1", "there"}, From: after(10), To: after(12)}}}
	for _, row := range []struct {
		key      string
		from, to int
		want     bool
	}{{"rw:1", 11, 11, true}, {"rw:1", 9, 11, true}, {"rw:1", 13, 13, true}, {"rw:1", 8, 9, false}, {"rw:1", 15, 16, false}, {"rw:2", 11, 11, false}} {
		if got := w.SlotMoving(row.key, after(row.from), after(row.to)); got != row.want {
			t.Errorf("%s from %d to %d: got %v", row.key, row.from, row.to, got)
		}
	}
}

// TestDisturbed: disturbed sums the times in which something was broken. It counts each time once.
func TestDisturbed(t *testing.T) {
	start := time.Now()
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	w := &FaultTimeline{Periods: []*FaultPeriod{{From: after(10), To: after(12)}, {From: after(11), To: after(13)}, {Upstream: true, From: after(30)}}}
	for _, row := range [][3]int{{0, 5, 0}, {0, 20, 5}, {11, 12, 1}, {14, 20, 1}, {0, 40, 15}, {35, 40, 5}} {
		if got := w.Disturbed(after(row[0]), after(row[1])); got != time.Duration(row[2])*time.Second {
			t.Errorf("from %d to %d: got %v, want %d s", row[0], row[1], got, row[2])
		}
	}
	if !w.Answering(after(0), after(29)) || w.Answering(after(0), after(31)) || w.Answering(after(40), after(41)) {
		t.Error("redis does not answer from 30 s on, and only then")
	}
}

// TestDisturbedOrInGrace: disturbedOrInGrace adds the grace period of a new master. The grace
// period begins when Leash has looked at the master. Leash cannot do that while something else is
// broken.
func TestDisturbedOrInGrace(t *testing.T) {
	start := time.Now()
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, row := range []struct {
		name     string
		spells   []*FaultPeriod
		from, to int
		want     int
	}{
		{"no new master", []*FaultPeriod{{From: after(10), To: after(12)}}, 0, 40, 4},
		{"a new master", []*FaultPeriod{{NewMaster: true, From: after(10), To: after(12)}}, 0, 40, 9},
		{"a new master, and its grace period is over", []*FaultPeriod{{NewMaster: true, From: after(10), To: after(12)}}, 19, 40, 0},
		{"a new master does not answer until 18 s", []*FaultPeriod{{NewMaster: true, From: after(10), To: after(12)}, {From: after(13), To: after(18)}}, 0, 40, 15},
		{"a new master does not answer until 18 s, nor from 24 s to 26 s", []*FaultPeriod{{NewMaster: true, From: after(10), To: after(12)}, {From: after(13), To: after(18)}, {From: after(24), To: after(26)}}, 0, 40, 19},
		{"a new master does not answer", []*FaultPeriod{{NewMaster: true, From: after(10), To: after(12)}, {From: after(13)}}, 0, 40, 30},
		{"the failover goes on", []*FaultPeriod{{NewMaster: true, From: after(10)}}, 0, 40, 30},
	} {
		w := &FaultTimeline{Periods: row.spells}
		if got := w.DisturbedOrInGrace(after(row.from), after(row.to), 5*time.Second); got != time.Duration(row.want)*time.Second {
			t.Errorf("%s: got %v, want %d s", row.name, got, row.want)
		}
	}
}
