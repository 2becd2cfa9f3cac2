package proxytest

import (
	"strings"
	"testing"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
)

// ACLServer starts a Redis with one user who has few rights and one who has all.
func ACLServer(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Start(t, strings.Fields(
		"--user few on >pw ~few:* resetchannels +get +set +acl|whoami --user all on >pw ~* &* +@all")...)
}

// BlockedUpstream counts the blocked clients of a node.
func BlockedUpstream(t testing.TB, n *redistest.Server) int {
	t.Helper()
	info, err := n.Client().Info(t.Context(), "clients").Result()
	if err != nil {
		t.Fatal(err)
	}
	return InfoNumber(info, "blocked_clients")
}

// BothUpstreams runs f in front of a cluster and of a single Redis.
func BothUpstreams(t *testing.T, f func(t *testing.T, l *Leash, nodes []*redistest.Server)) {
	t.Run("cluster", func(t *testing.T) {
		c := redistest.StartCluster(t, redistest.ClusterOptions{})
		var nodes []*redistest.Server
		for _, n := range c.Nodes {
			nodes = append(nodes, n.Server)
		}
		f(t, Start(t, c.Addrs()), nodes)
	})
	t.Run("standalone", func(t *testing.T) {
		r := redistest.Start(t)
		f(t, Start(t, []string{r.Addr}), []*redistest.Server{r})
	})
}

// Secured starts a Redis whose default user needs a password, and which has a user with few rights.
func Secured(t *testing.T) *redistest.Server {
	t.Helper()
	redis, err := redistest.Launch(redistest.Options{Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Close() })
	admin := Dial(t, redis.Addr)
	admin.Want(t, "+OK\r\n", "AUTH", "secret")
	admin.Want(t, "+OK\r\n", "ACL", "SETUSER", "bob", "on", ">builder", "~bob:*", "+@all")
	return redis
}

// Faulty starts a Redis and a proxy in front of it that can drop replies.
func Faulty(t *testing.T) (*redistest.Server, *faultproxy.Proxy) {
	t.Helper()
	redis := redistest.Start(t)
	fault, err := faultproxy.New(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fault.Close() })
	return redis, fault
}
