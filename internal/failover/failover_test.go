package failover

import (
	"strings"
	"testing"
)

// whole is what Leash does with --failover-grace.
func whole() Model {
	return Model{Owners: 2, Failovers: 2, TTL: 2, Overlap: 1, Grace: 3, Reassert: true, Buries: true}
}

// counting, moving and extending are that for owners who do more with a hold.
func counting() Model {
	m := whole()
	m.Failovers, m.Counts, m.Recounts, m.Compares = 1, true, true, true
	return m
}

func moving() Model {
	m := whole()
	m.Failovers, m.Overlap, m.Grace, m.Moves, m.Recounts, m.Follows = 1, 0, 2, true, true, true
	return m
}

func extending() Model {
	m := whole()
	m.Failovers, m.Overlap, m.Grace, m.Extends, m.Recounts, m.Doubts = 1, 0, 2, 4, true, true
	return m
}

// TestGraceKeepsHoldersApart: with the grace no order of events gives the lock to two, and no hold
// is lost.
func TestGraceKeepsHoldersApart(t *testing.T) {
	three := whole()
	three.Owners, three.Failovers, three.Overlap, three.Grace = 3, 1, 0, 2
	for name, m := range map[string]Model{
		"two owners, two failovers": whole(), "three owners, one failover": three,
		"counts": counting(), "moves": moving(), "leases": extending(),
	} {
		t.Run(name, func(t *testing.T) {
			r := m.Search(OneBeliever | NoneLost | CountsKept | NoneLeft)
			t.Logf("%d states", r.States)
			if r.Broken != 0 {
				t.Fatalf("promise %d is broken:\n%s", r.Broken, strings.Join(r.Trace, "\n"))
			}
		})
	}
}

// TestEachRuleIsNeeded: without the grace two believe in the lock, and so they do, or a hold is
// lost, without any part of it.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, c := range []struct {
		name   string
		model  Model
		broken Promise
		change func(*Model)
	}{
		{"no grace", whole(), OneBeliever, func(m *Model) { m.Grace = 0 }},
		{"a grace that is too short", whole(), OneBeliever, func(m *Model) { m.Grace-- }},
		{"an old master that serves for too long", whole(), OneBeliever, func(m *Model) { m.Overlap++ }},
		{"an old master that serves for longer than its leases", whole(), OneBeliever, func(m *Model) { m.Outlives = true }},
		{"a master known by its run_id alone", whole(), OneBeliever, func(m *Model) { m.RunIDOnly = true }},
		{"a script that looks at no identity", whole(), OneBeliever, func(m *Model) { m.Loose = true }},
		{"a promoted master without a mark taken for an old one", whole(), OneBeliever, func(m *Model) { m.Trusting = true }},
		{"holds that are not put back", whole(), NoneLost, func(m *Model) { m.Reassert = false }},
		{"counts that are not put right", counting(), CountsKept, func(m *Model) { m.Recounts = false }},
		{"a release that does not look why less was left", counting(), CountsKept, func(m *Model) { m.Compares = false }},
		{"moves that are not counted", moving(), NoneLost, func(m *Model) { m.Follows = false }},
		{"a shorter lease that is believed at once", extending(), OneBeliever, func(m *Model) { m.Doubts = false }},
		{"a release that leaves nothing for what comes late", whole(), NoneLeft, func(m *Model) { m.Buries = false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.model
			c.change(&m)
			r := m.Search(c.broken)
			if r.Broken != c.broken {
				t.Fatalf("nothing is broken in %d states", r.States)
			}
			t.Logf("after %d states: %s", r.States, strings.Join(r.Trace, "; "))
		})
	}
}
