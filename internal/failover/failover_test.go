package failover

import (
	"strings"
	"testing"
)

// whole is the model of Leash with --failover-grace.
func whole() Model {
	return Model{Owners: 2, Failovers: 2, TTL: 2, Overlap: 1, Grace: 3, Restores: true, Tombstones: true}
}

// counting, moving and extending are that model with owners that do more with a hold.
func counting() Model {
	m := whole()
	m.Failovers, m.Counts, m.RepairsCount, m.ComparesCount = 1, true, true, true
	return m
}

func moving() Model {
	m := whole()
	m.Failovers, m.Overlap, m.Grace, m.Moves, m.RepairsCount, m.FollowsMoves = 1, 0, 2, true, true, true
	return m
}

func extending() Model {
	m := whole()
	m.Failovers, m.Overlap, m.Grace, m.Extends, m.RepairsCount, m.DistrustsGrace = 1, 0, 2, 4, true, true
	return m
}

// TestGraceKeepsHoldersApart: with the grace period, no order of events gives the lock to two
// owners or loses a hold.
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

// TestEachRuleIsNeeded: without the grace period, or without any one of its rules, two owners
// believe in the lock or a hold is lost.
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
		{"an old master that serves for longer than its leases", whole(), OneBeliever, func(m *Model) { m.OutlivesLease = true }},
		{"a master known by its run_id alone", whole(), OneBeliever, func(m *Model) { m.RunIDOnly = true }},
		{"a script that does not check the master's identity", whole(), OneBeliever, func(m *Model) { m.IgnoresIdentity = true }},
		{"a promoted master without a mark that counts as settled", whole(), OneBeliever, func(m *Model) { m.TrustsPromoted = true }},
		{"holds that are not restored", whole(), NoneLost, func(m *Model) { m.Restores = false }},
		{"counts that are not repaired", counting(), CountsKept, func(m *Model) { m.RepairsCount = false }},
		{"a release that does not check the grace if the count is wrong", counting(), CountsKept, func(m *Model) { m.ComparesCount = false }},
		{"moves that are not counted", moving(), NoneLost, func(m *Model) { m.FollowsMoves = false }},
		{"a shorter lease that is accepted during the grace", extending(), OneBeliever, func(m *Model) { m.DistrustsGrace = false }},
		{"a release without a tombstone", whole(), NoneLeft, func(m *Model) { m.Tombstones = false }},
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
