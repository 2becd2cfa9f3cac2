package upstream_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestSentinelPasswordRotates changes the sentinels' password while Leash runs. Its subscriptions
// stay open and bring the next failover. When the sentinels cut them, Leash follows the next one
// too, because it reads the password for each connection. While it cannot, it keeps the last one
// and says so once.
func TestSentinelPasswordRotates(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t, redistest.SentinelOptions{Replicas: 1, DownAfter: redistest.NoFailover})
	for _, s := range g.Sentinels {
		redistest.Connect(t, s.Addr).Want("+OK\r\n", "ACL", "SETUSER", "watcher", "on", ">first", "+@all", "&*")
	}
	var password, given atomic.Value
	password.Store("first")
	l := proxytest.StartBehindSentinels(t, g, func(o *proxytest.Options) {
		o.Upstream.SentinelUser, o.Upstream.SentinelPassword = "watcher", "first"
		o.Upstream.ReadSentinelPassword = func(string) (string, error) {
			if now := password.Load().(string); now != "" {
				given.Store(now)
				return now, nil
			}
			return "", errors.New("no such file")
		}
	})
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "k", "v")
	change := func(now string) {
		t.Helper()
		password.Store(now)
		for _, s := range g.Sentinels {
			redistest.Connect(t, s.Addr).Want("+OK\r\n", "ACL", "SETUSER", "watcher", "resetpass", ">"+now)
		}
	}
	var open []string
	proxytest.Eventually(t, "Leash listens to all sentinels", func() bool {
		open = subscriptionsAt(t, g.Sentinels)
		return len(open) == len(g.Sentinels)
	})
	change("second")
	switchMaster(t, g, client)
	if now := subscriptionsAt(t, g.Sentinels); !slices.Equal(now, open) {
		t.Errorf("the subscriptions were %v and are %v", open, now)
	}
	proxytest.Eventually(t, "each subscription has brought the failover", func() bool {
		return strings.Count(l.Logs.String(), "event=+switch-master") >= len(g.Sentinels)
	})
	change("third")
	proxytest.Eventually(t, "Leash reads the third", func() bool { return given.Load() == "third" })
	password.Store("")
	const text = "cannot read the password for the sentinels again: using the last one"
	proxytest.Eventually(t, "the log says that it cannot be read", func() bool { return strings.Contains(l.Logs.String(), text) })
	for _, s := range g.Sentinels {
		redistest.Connect(t, s.Addr).Do("CLIENT", "KILL", "USER", "watcher")
	}
	switchMaster(t, g, client)
	if n := strings.Count(l.Logs.String(), text); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if !strings.Contains(l.Logs.String(), "read a new password for the sentinels") {
		t.Error("the log does not say that there is a new password")
	}
}

// switchMaster makes another server the master, and waits until Leash serves it.
func switchMaster(t *testing.T, g *redistest.SentinelGroup, client *redistest.Client) {
	t.Helper()
	master, err := g.Failover()
	if err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "Leash serves the new master", func() bool {
		client.Reply(t, "SET", "served-by", master.Addr)
		return master.Client().Get(t.Context(), "served-by").Val() == master.Addr
	})
}

// subscriptionsAt are Leash's subscriptions at the sentinels, as address and id.
func subscriptionsAt(t *testing.T, sentinels []*redistest.Server) (all []string) {
	t.Helper()
	for _, s := range sentinels {
		list, err := s.Client().ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(list) {
			if strings.Contains(line, "user=watcher") && strings.Contains(line, " sub=2 ") {
				all = append(all, s.Addr+" "+strings.Fields(line)[0])
			}
		}
	}
	return all
}
