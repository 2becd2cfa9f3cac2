package pubsub

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"leash/internal/redistest"
)

// TestRefusedSubscriptionsAreLoggedOnce checks that many refused subscriptions of
// Leash itself give one log line, which names a channel.
func TestRefusedSubscriptionsAreLoggedOnce(t *testing.T) {
	redis := redistest.Start(t)
	x := startExchange(t, []string{redis.Addr})
	var logged lines
	x.log = slog.New(slog.NewTextHandler(&logged, nil))
	ask(t, redis, "ACL", "SETUSER", "default", "resetchannels", "&allowed*")
	for i := range 10 {
		_, cancel := x.Subscribe(fmt.Sprint("denied", i), true, false, func([]byte) {})
		defer cancel()
	}
	ready, cancel := x.Subscribe("allowed", true, false, func([]byte) {})
	defer cancel()
	<-ready
	eventually(t, "all ten have been refused", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		refused := 0
		for _, e := range x.hubs[""].entries[Channel] {
			if !e.notBefore.IsZero() {
				refused++
			}
		}
		return refused == 10
	})
	eventually(t, "it is logged", func() bool { return strings.Contains(logged.String(), "refuses") })
	text := logged.String()
	if strings.Count(text, "redis refuses a subscription") != 1 ||
		!strings.Contains(text, "user=default kind=subscribe channel=denied") || !strings.Contains(text, "NOPERM") {
		t.Errorf("logged\n%s", text)
	}
}
