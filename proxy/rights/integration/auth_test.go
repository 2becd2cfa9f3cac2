package rights_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"leash/internal/faultproxy"
	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestAuthWithBrokenNode checks that one broken master of a cluster keeps nobody from logging in,
// and that an answer of Redis is final.
func TestAuthWithBrokenNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{FaultProxy: true})
	var addrs []string
	var logins atomic.Int64
	for _, n := range cluster.Nodes {
		redistest.Connect(t, n.Addr).Want("+OK\r\n", "ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all")
		addrs = append(addrs, n.Announced())
		n.Proxy.DropBefore(func(request []byte) bool {
			if faultproxy.Holding("AUTH", "bob", "wrong")(request) {
				logins.Add(1)
			}
			return false
		})
	}
	l := proxytest.Start(t, addrs)
	logIn := func(broken string) {
		for range cluster.Nodes { // each node is asked first once
			c := l.Dial(t)
			c.Want(t, "+OK\r\n", "AUTH", "bob", "pw")
			if got := c.Reply(t, "HELLO", "3", "AUTH", "bob", "pw"); !strings.HasPrefix(got, "%7\r\n") {
				t.Errorf("%s: HELLO AUTH answers %q", broken, got)
			}
			c.Want(t, "$3\r\nbob\r\n", "ACL", "WHOAMI")
			c.Close()
		}
	}
	bad := cluster.Nodes[1]
	login := faultproxy.Holding("AUTH", "bob")
	for broken, arm := range map[string]func() *faultproxy.Fault{
		"closes":    func() *faultproxy.Fault { return bad.Proxy.DropBefore(login, faultproxy.Always()) },
		"is silent": func() *faultproxy.Fault { return bad.Proxy.HoldBefore(login, faultproxy.Always()) },
		"nonsense":  func() *faultproxy.Fault { return bad.Proxy.Replace(login, ":1\r\n", faultproxy.Always()) },
	} {
		fault := arm()
		logIn(broken)
		if fault.Count() == 0 {
			t.Errorf("a node that %s was not asked", broken)
		}
		fault.Disarm()
		fault.Release()
	}
	if err := bad.Kill(); err != nil {
		t.Fatal(err)
	}
	logIn("is dead")
	c := l.Dial(t)
	for range 3 {
		if got := c.Reply(t, "AUTH", "bob", "wrong"); !strings.HasPrefix(got, "-WRONGPASS ") {
			t.Errorf("AUTH with a wrong password answers %q", got)
		}
	}
	if n := logins.Load(); n < 3 || n > 4 { // one of them may have gone to the dead node first
		t.Errorf("%d attempts with a wrong password reached Redis, want 3", n)
	}
}
