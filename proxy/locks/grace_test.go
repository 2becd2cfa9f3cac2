package locks_test

import (
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestR2SentinelGrace checks that behind sentinels, Leash restores a lock that the new master has
// forgotten, and grants it to nobody else.
func TestR2SentinelGrace(t *testing.T) {
	t.Parallel() // it waits most of the time
	const ttl = 15 * time.Second
	g := redistest.StartSentinel(t)
	grace := func(o *proxytest.Options) { o.Locks.WatchdogTimeout, o.Locks.FailoverGrace = ttl, ttl }
	one, other := proxytest.StartBehindSentinels(t, g, grace), proxytest.StartBehindSentinels(t, g, grace)
	a, b := one.Dial(t), other.Dial(t)
	a.Timeout, b.Timeout = 10*ttl, 10*ttl
	a.Reply(t, "LOCK.ACQUIRE", "young", "BLOCK", "0")
	master := g.Master()
	for _, s := range g.Servers {
		if s == master {
			continue
		}
		c := s.Client() // it gets no more replies from its master
		proxytest.Eventually(t, "the replica is cut off", func() bool {
			c.ConfigSet(t.Context(), "masterauth", "wrong")
			c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "master")
			info, err := c.Info(t.Context(), "replication").Result()
			return err == nil && strings.Contains(info, "master_link_status:down")
		})
	}
	token := a.Reply(t, "LOCK.ACQUIRE", "forgotten")
	if token[0] != ':' {
		t.Fatalf("got %q", token)
	}
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it is put back", func() bool {
		return strings.Contains(a.Reply(t, "INFO", "leash"), "leash_holds_restored:1\r\n")
	})
	if got := b.Reply(t, "LOCK.ACQUIRE", "forgotten"); got != "$-1\r\n" {
		t.Errorf("the other one got %q", got)
	}
	number := strings.TrimSuffix(token[1:], "\r\n")
	a.Want(t, ":1\r\n", "LOCK.CHECK", "forgotten", "TOKEN", number)
	a.Want(t, ":1\r\n", "LOCK.RELEASE", "forgotten", "TOKEN", number)
	if next := b.Reply(t, "LOCK.ACQUIRE", "forgotten", "BLOCK", "0"); next <= token {
		t.Errorf("token %q after %q", next, token)
	}
}
