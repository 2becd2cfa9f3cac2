package topology

import (
	"slices"

	"leash/proxy/links"
	"leash/proxy/slots"
)

// Snapshot says which node owns which slot. It is immutable. A change is a new Snapshot, so a
// session keeps one consistent view until it takes the next one.
type Snapshot struct {
	cluster  bool
	masters  []*links.Node
	slotless []*links.Node
	owner    [slots.Count]uint16           // index into masters, noOwner for none
	replicas map[*links.Node][]*links.Node // of each master; empty if no session reads from them
	count    int                           // Layout.Replicas
}

const noOwner = 1<<16 - 1

// Cluster reports whether it is one of a Redis Cluster. A single Redis owns every slot and allows
// commands with keys of several slots.
func (s *Snapshot) Cluster() bool { return s.cluster }

// Masters returns all nodes that own slots. The slice must not be changed.
func (s *Snapshot) Masters() []*links.Node { return s.masters }

// Holders returns all nodes that may have keys. The masters come first. Then come nodes that own no
// slot but may get keys of a migrating slot. The slice must not be changed.
func (s *Snapshot) Holders() []*links.Node {
	if len(s.slotless) == 0 {
		return s.masters
	}
	return slices.Concat(s.masters, s.slotless)
}

// IsSlotless reports whether n is a master without slots.
func (s *Snapshot) IsSlotless(n *links.Node) bool { return slices.Contains(s.slotless, n) }

// Owner returns the index into Masters of the slot's owner, or -1 if it has none. slots.Any has
// none.
func (s *Snapshot) Owner(slot slots.Slot) int {
	if slot == slots.Any || s.owner[slot] == noOwner {
		return -1
	}
	return int(s.owner[slot])
}

// Node returns the owner of a slot, or nil if it has none. slots.Any has none.
func (s *Snapshot) Node(slot slots.Slot) *links.Node {
	if i := s.Owner(slot); i >= 0 {
		return s.masters[i]
	}
	return nil
}

// Replicas returns the replicas of a master. There are none if Layout.Snapshot was told so. The
// slice must not be changed.
func (s *Snapshot) Replicas(master *links.Node) []*links.Node { return s.replicas[master] }

// ReplicaCount returns the number of working replicas, or -1 if it is unknown. It counts them even
// if Replicas has none.
func (s *Snapshot) ReplicaCount() int { return s.count }

// Has reports whether n is a master or a replica.
func (s *Snapshot) Has(n *links.Node) bool {
	if slices.Contains(s.masters, n) || s.IsSlotless(n) {
		return true
	}
	for _, replicas := range s.replicas {
		if slices.Contains(replicas, n) {
			return true
		}
	}
	return false
}
