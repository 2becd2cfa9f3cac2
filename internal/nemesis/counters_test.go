package main

import (
	"slices"
	"testing"
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
