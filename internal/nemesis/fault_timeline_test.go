package main

import (
	"testing"
	"time"
)

func TestSlotMoving(t *testing.T) {
	at := time.Now()
	after := func(seconds int) time.Time { return at.Add(time.Duration(seconds) * time.Second) }
	w := &faultTimeline{periods: []*faultPeriod{{name: "redis: slot moved", places: []string{"the slot of rw:1", "there"}, from: after(10), to: after(12)}}}
	for _, row := range []struct {
		key      string
		from, to int
		want     bool
	}{{"rw:1", 11, 11, true}, {"rw:1", 9, 11, true}, {"rw:1", 13, 13, true}, {"rw:1", 8, 9, false}, {"rw:1", 15, 16, false}, {"rw:2", 11, 11, false}} {
		if got := w.slotMoving(row.key, after(row.from), after(row.to)); got != row.want {
			t.Errorf("%s from %d to %d: got %v", row.key, row.from, row.to, got)
		}
	}
}
