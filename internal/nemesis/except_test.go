package main

import (
	"testing"
	"time"
)

// TestForgottenAndTold: a LOCK.BREAK that answers 1 has told the holder, but one with ONLOSS ERROR hears of it when it asks.
func TestForgottenAndTold(t *testing.T) {
	const ms = int64(time.Millisecond)
	for _, row := range []struct {
		name         string
		told, silent bool
		want         int64 // ms
	}{
		{"nobody confirmed that it was told", false, false, 500},
		{"it was told", true, false, 800},
		{"it hears when it asks", true, true, 500},
	} {
		h := newHistory(&weather{})
		h.forgets = []*span{{key: "k", from: 500 * ms, to: 510 * ms, told: row.told}}
		h.kept["k 10"] = &kept{hold: 1, key: "k", token: "10", base: time.Second, silent: row.silent}
		ops, _ := h.excepting("k", scene{granted("plain", 1, 10, 0, 1), ended("plain", 1, 800, never)})
		if got := ops[1].Call; got != row.want*ms {
			t.Errorf("%s: the belief ends at %v, want %v", row.name, time.Duration(got), time.Duration(row.want*ms))
		}
	}
}
