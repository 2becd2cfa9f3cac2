package locktest

import (
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/proxy/slots"
)

// StartMigration starts a slot migration with the lock keys of a test in the slot.
func StartMigration(t *testing.T, key string) (*redistest.Move, func()) {
	t.Helper()
	c := redistest.SharedCluster(t)
	slot := int(slots.Of([]byte(key)))
	from := c.MasterOf(slot)
	to := c.MasterOf((slot + slots.Count/3) % slots.Count)
	if from == to {
		to = c.MasterOf((slot + 2*slots.Count/3) % slots.Count)
	}
	m, err := c.BeginMove(slot, to)
	if err != nil {
		t.Fatal(err)
	}
	return m, func() {
		if _, err := m.MoveKeys(-1); err != nil {
			t.Fatal(err)
		}
		if err := m.Finish(); err != nil {
			t.Fatal(err)
		}
	}
}

// WantRenewed asks a Leash to renew keys with short TTLs, and checks that it does. It does not wait
// for the periodic renewal. On a machine that stalls for longer than a TTL, the locks would rightly
// be lost.
func WantRenewed(t *testing.T, s *lockcmd.Service, keys ...string) {
	t.Helper()
	const little = 15 * time.Second
	for _, k := range keys {
		if !RedisOf(s).PExpire(t.Context(), k, little).Val() {
			t.Errorf("%s is not there", k)
		}
	}
	s.RenewAll(t.Context())
	for _, k := range keys {
		if left := RedisOf(s).PTTL(t.Context(), k).Val(); left <= little {
			t.Errorf("%s has %v left, it was not renewed", k, left)
		}
	}
}
