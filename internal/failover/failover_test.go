package failover

import (
	"strings"
	"testing"
)

// whole is what Leash does with --failover-grace.
func whole() Model {
	return Model{Owners: 2, Failovers: 2, TTL: 2, Overlap: 1, Grace: 3, Reassert: true}
}

// TestGraceKeepsHoldersApart: with the grace no order of events gives the lock to two, and no hold is lost.
func TestGraceKeepsHoldersApart(t *testing.T) {
	three := whole()
	three.Owners, three.Failovers, three.Overlap, three.Grace = 3, 1, 0, 2
	for name, m := range map[string]Model{"two owners, two failovers": whole(), "three owners, one failover": three} {
		t.Run(name, func(t *testing.T) {
			r := m.Search(OneBeliever | NoneLost)
			t.Logf("%d states", r.States)
			if r.Broken != 0 {
				t.Fatalf("promise %d is broken:\n%s", r.Broken, strings.Join(r.Trace, "\n"))
			}
		})
	}
}

// TestEachRuleIsNeeded: without the grace two believe in the lock, and so they do, or a hold is lost, without any part of it.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, c := range []struct {
		name   string
		broken Promise
		change func(*Model)
	}{
		{"no grace", OneBeliever, func(m *Model) { m.Grace = 0 }},
		{"a grace that is too short", OneBeliever, func(m *Model) { m.Grace-- }},
		{"an old master that serves for too long", OneBeliever, func(m *Model) { m.Overlap++ }},
		{"an old master that serves for longer than its leases", OneBeliever, func(m *Model) { m.Outlives = true }},
		{"a master known by its run_id alone", OneBeliever, func(m *Model) { m.RunIDOnly = true }},
		{"a script that looks at no identity", OneBeliever, func(m *Model) { m.Loose = true }},
		{"a promoted master without a mark taken for an old one", OneBeliever, func(m *Model) { m.Trusting = true }},
		{"holds that are not put back", NoneLost, func(m *Model) { m.Reassert = false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := whole()
			c.change(&m)
			r := m.Search(c.broken)
			if r.Broken != c.broken {
				t.Fatalf("nothing is broken in %d states", r.States)
			}
			t.Logf("after %d states: %s", r.States, strings.Join(r.Trace, "; "))
		})
	}
}
