package lockcmd

import (
	"testing"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// slowHost is a connection that takes its time before it is cut.
type slowHost struct {
	*conn
	entered, leave chan struct{}
}

func (h *slowHost) End(key []byte, reason string) {
	h.entered <- struct{}{}
	<-h.leave
	h.conn.End(key, reason)
}

// TestR27OverdueWhileALossIsTold: One goroutine has found that a hold is over and has not told the
// host yet. Another one that asks before a write tells the host itself, and so do later ones.
func TestR27OverdueWhileALossIsTold(t *testing.T) {
	t.Parallel()
	s := idleService(t)
	host := &slowHost{connect(t, s), make(chan struct{}), make(chan struct{})}
	c := s.NewCarrier(lastConn.Add(1), Client{Name: testClientName}, host, host)
	g := hold.Grant{Key: newKey(), Mode: script.Plain, Token: 1, TTL: time.Minute}
	h := c.holdAs(t, g, time.Now().Add(time.Millisecond))
	eventually(t, soon, "it is over", func() bool { return c.SafeUntil() != nil && renewal.Left(*c.SafeUntil()) <= 0 })
	for range 3 {
		go c.CheckOverdue()
		receive(t, host.entered, soon)
	}
	close(host.leave)
	for range 3 {
		want(t, receive(t, host.losses, soon), h.Key()+" "+renewal.ReasonSilence)
	}
	eventually(t, soon, "no hold is left", func() bool { return s.Holds.Stats.Holds.Load() == 0 })
}
