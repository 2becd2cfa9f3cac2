package locktest

import (
	"cmp"
	"slices"

	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/proxy/slots"
)

// AllHolds returns the holds of a Leash, the oldest first.
func AllHolds(s *lockcmd.Service) []*hold.Hold {
	var part [1 << 17]*hold.Hold
	n, _, _ := s.Holds.Part(0, part[:])
	slices.SortFunc(part[:n], func(a, b *hold.Hold) int { return cmp.Compare(a.Token, b.Token) })
	return part[:n]
}

// HeldIn returns this Leash's holds in a slot.
func HeldIn(s *lockcmd.Service, slot int) (holds []*hold.Hold) {
	for _, h := range AllHolds(s) {
		if int(slots.Of([]byte(h.Key()))) == slot {
			holds = append(holds, h)
		}
	}
	return holds
}
