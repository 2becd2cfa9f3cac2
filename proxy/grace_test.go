package proxy

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestR2SentinelGrace checks that behind sentinels, Leash restores a lock that the new master has
// forgotten, and grants it to nobody else.
func TestR2SentinelGrace(t *testing.T) {
	t.Parallel() // it waits most of the time
	const ttl = 15 * time.Second
	g := redistest.StartSentinel(t)
	grace := func(o *options) { o.locks.WatchdogTimeout, o.locks.FailoverGrace = ttl, ttl }
	one, other := startBehindSentinels(t, g, grace), startBehindSentinels(t, g, grace)
	a, b := one.dial(t), other.dial(t)
	a.Timeout, b.Timeout = 10*ttl, 10*ttl
	do(t, a, "LOCK.ACQUIRE", "young", "BLOCK", "0")
	master := g.Master()
	for _, s := range g.Servers {
		if s == master {
			continue
		}
		c := s.Client() // it gets no more replies from its master
		eventually(t, "the replica is cut off", func() bool {
			c.ConfigSet(t.Context(), "masterauth", "wrong")
			c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "master")
			info, err := c.Info(t.Context(), "replication").Result()
			return err == nil && strings.Contains(info, "master_link_status:down")
		})
	}
	token := do(t, a, "LOCK.ACQUIRE", "forgotten")
	if token[0] != ':' {
		t.Fatalf("got %q", token)
	}
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is put back", func() bool {
		return strings.Contains(do(t, a, "INFO", "leash"), "leash_holds_restored:1\r\n")
	})
	if got := do(t, b, "LOCK.ACQUIRE", "forgotten"); got != "$-1\r\n" {
		t.Errorf("the other one got %q", got)
	}
	number := strings.TrimSuffix(token[1:], "\r\n")
	want(t, a, ":1\r\n", "LOCK.CHECK", "forgotten", "TOKEN", number)
	want(t, a, ":1\r\n", "LOCK.RELEASE", "forgotten", "TOKEN", number)
	if next := do(t, b, "LOCK.ACQUIRE", "forgotten", "BLOCK", "0"); next <= token {
		t.Errorf("token %q after %q", next, token)
	}
}
