package hold_test

import (
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// slowHost is a connection that takes its time before it is cut.
type slowHost struct {
	*locktest.Client
	entered, leave chan struct{}
}

func (h *slowHost) End(key []byte, reason string) {
	h.entered <- struct{}{}
	<-h.leave
	h.Client.End(key, reason)
}

// TestR27OverdueWhileALossIsTold: One goroutine has found that a hold is over and has not told the
// host yet. Another one that asks before a write tells the host itself, and so do later ones.
func TestR27OverdueWhileALossIsTold(t *testing.T) {
	t.Parallel()
	s := locktest.IdleService(t)
	host := &slowHost{locktest.Connect(t, s), make(chan struct{}), make(chan struct{})}
	a := locktest.Connect(t, s)
	a.Carrier = s.NewCarrier(locktest.LastConn.Add(1), lockcmd.Client{Name: locktest.TestClientName}, host, host)
	c := a.Carrier
	g := hold.Grant{Key: locktest.NewKey(), Mode: script.Plain, Token: 1, TTL: time.Minute}
	h := a.HoldAs(t, g, time.Now().Add(time.Millisecond))
	locktest.Eventually(t, locktest.Soon, "it is over",
		func() bool { return c.SafeUntil() != nil && renewal.Left(*c.SafeUntil()) <= 0 })
	for range 3 {
		go c.CheckOverdue()
		locktest.Receive(t, host.entered, locktest.Soon)
	}
	close(host.leave)
	for range 3 {
		locktest.Want(t, locktest.Receive(t, host.Losses, locktest.Soon), h.Key()+" "+renewal.ReasonSilence)
	}
	locktest.Eventually(t, locktest.Soon, "no hold is left", func() bool { return s.Holds.Stats.Holds.Load() == 0 })
}
