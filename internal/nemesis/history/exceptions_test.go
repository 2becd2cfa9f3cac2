package history

import (
	"io"
	"log/slog"
	"testing"
	"time"
)

// TestForgottenAndReported: a LOCK.BREAK that answers 1 has told the holder. A holder with ONLOSS
// ERROR learns of the loss only when it asks.
func TestForgottenAndReported(t *testing.T) {
	const ms = int64(time.Millisecond)
	for _, row := range []struct {
		name         string
		told, silent bool
		want         int64 // ms
	}{
		{"the holder may not have been told", false, false, 500},
		{"the holder was told", true, false, 800},
		{"the holder learns of it when it asks", true, true, 500},
	} {
		h := NewHistory(&FaultTimeline{})
		h.forgets = []*interval{{key: "k", from: 500 * ms, to: 510 * ms, reported: row.told}}
		h.redisHolds["k 10"] = &RedisHold{Hold: 1, Key: "k", Token: "10", Base: time.Second, ErrorOnLoss: row.silent}
		ops, _ := h.withExceptions("k", testHistory{granted("plain", 1, 10, 0, 1), ended("plain", 1, 800, Never)})
		if got := ops[1].Call; got != row.want*ms {
			t.Errorf("%s: the belief ends at %v, want %v", row.name, time.Duration(got), time.Duration(row.want*ms))
		}
	}
}

// TestForgottenTokens: a token may be below an earlier one only if Redis forgot the counter between
// them. It must be lower by less than the clock had gone back.
func TestForgottenTokens(t *testing.T) {
	const ms = int64(time.Millisecond)
	step := func(at int64, by time.Duration) *clockStep {
		return &clockStep{keys: []string{"k"}, by: by, from: at * ms, to: (at + 1) * ms}
	}
	forth, back := step(10, 3*time.Second), step(60, -3*time.Second)
	flush := &interval{from: 100 * ms, to: 101 * ms}
	for _, row := range []struct {
		name    string
		jumps   []*clockStep
		forgets []*interval
		second  int64 // the token at 200 ms, in ms; the token at 50 ms is 3050
		ok      bool
	}{
		{"nothing happened", nil, nil, 200, false},
		{"forgotten, and the clock was not stepped", nil, []*interval{flush}, 200, false},
		{"stepped, and not forgotten", []*clockStep{forth, back}, nil, 200, false},
		{"stepped back and forgotten", []*clockStep{forth, back}, []*interval{flush}, 200, true},
		{"stepped back by no more than the token fell", []*clockStep{forth, back}, []*interval{flush}, 50, false},
		{"the clock is still ahead", []*clockStep{forth}, []*interval{flush}, 200, false},
		{"stepped back later", []*clockStep{forth, step(150, -3*time.Second)}, []*interval{flush}, 200, false},
		{"forgotten before", []*clockStep{forth, back}, []*interval{{from: ms, to: 2 * ms}}, 200, false},
		{"the clock of another lock was stepped", []*clockStep{{keys: []string{"other"}, by: time.Second, to: ms}, {keys: []string{"other"}, by: -time.Second, to: ms}}, []*interval{flush}, 200, false},
		{"ended by LOCK.BREAK, which keeps the counter", []*clockStep{forth, back}, []*interval{{key: "k", from: 100 * ms, to: 101 * ms}}, 200, false},
	} {
		h := NewHistory(&FaultTimeline{})
		h.steps, h.forgets = row.jumps, row.forgets
		h.ByKey["k"] = testHistory{granted("plain", 1, 3050_000, 50, 51), ended("plain", 1, 60, 61), granted("plain", 2, row.second*1000, 200, 201)}
		if err := h.Check(io.Discard, slog.New(slog.DiscardHandler)); (err == nil) != row.ok {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
