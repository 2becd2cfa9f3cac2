package main

import (
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestCounters: all clients use the same counter until it is retired. The last client that leaves
// it is told so.
func TestCounters(t *testing.T) {
	var all counters
	all.renew()
	if c := all.enter("count"); c != nil {
		t.Fatalf("no counter was made: got %v", c)
	}
	first := all.make("count", 1)
	if all.enter("count") != nil {
		t.Error("other clients use a counter that is not published")
	}
	all.publish(first)
	if all.enter("count") != first || all.enter("latch") != nil {
		t.Error("want the published counter for its own kind only")
	}
	for range 2 {
		if all.leave(first) {
			t.Error("a client left a counter that is not retired: got the last use")
		}
	}
	all.enter("count")
	all.retire(first)
	if all.enter("count") != nil {
		t.Error("a client began to use a retired counter")
	}
	if got := all.keys(); !slices.Equal(got, []string{first.key}) {
		t.Errorf("in use: got %v", got)
	}
	second := all.make("count", 1)
	all.publish(second)
	if !all.leave(first) || all.leave(second) {
		t.Error("want the last use of the retired counter, and not of the current one")
	}
	for range counterUses {
		all.enter("count")
	}
	if all.enter("count") != nil {
		t.Error("a counter is not retired after counterUses uses")
	}
	if got := all.keys(); !slices.Equal(got, []string{second.key}) {
		t.Errorf("in use: got %v", got)
	}
	all.renew()
	if c := all.enter("count"); c != nil || len(all.keys()) > 0 {
		t.Errorf("a new history has the counter %v", c)
	}
	if c := all.make("count", 1); c.key == first.key {
		t.Errorf("a new history has a counter of the same name, %s", c.key)
	}
}

// TestLostCount: the check leaves a counter out only if Redis may have forgotten it while it was in
// use.
func TestLostCount(t *testing.T) {
	ops := testHistory{asked(set, 1, 1, 10, 11), unknown(give, 1, 1, 20), asked(read, 0, 1, 25, 30)}
	for _, row := range []struct {
		key      string
		from, to int64
		want     bool
	}{
		{"", 0, 9, false}, {"", 0, 10, true}, {"", 15, 16, true}, {"", 30, 40, true}, {"", 31, 40, false}, {"lock:1", 15, 16, false},
	} {
		h := newHistory(&faultTimeline{})
		ms := at(op{}, row.from, row.to)
		h.forgets = []*interval{{key: row.key, from: ms.Call, to: ms.Return}}
		if got := h.lostCount([]porcupine.Operation(ops)); got != row.want {
			t.Errorf("%q forgotten from %d to %d: got %v", row.key, row.from, row.to, got)
		}
	}
}

// TestWithout: without takes one word out of a list.
func TestWithout(t *testing.T) {
	for _, row := range []struct {
		list, word, want string
		was              bool
	}{
		{"1 12 2 ", "12 ", "1 2 ", true}, {"1 12 2 ", "1 ", "12 2 ", true}, {"1 12 2 ", "2 ", "1 12 ", true}, {"12 ", "2 ", "12 ", false}, {"7 ", "7 ", "", true},
	} {
		if got, was := without(row.list, row.word); got != row.want || was != row.was {
			t.Errorf("%q without %q: got %q, %v, want %q, %v", row.list, row.word, got, was, row.want, row.was)
		}
	}
}
