package command_test

import (
	"fmt"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/slots"
)

// TestClusterEndpointTypes checks that Leash works with every way in which Redis names its
// nodes: by address, by host name, or not at all. Without a name, the host is the one that was
// asked. The setting may change while Leash runs.
func TestClusterEndpointTypes(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"ip", "hostname", "hostname without one", "unknown-endpoint"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
			set := func(how string) {
				for _, n := range cluster.Nodes {
					direct := redistest.Connect(t, n.Server.Addr)
					kind, _, _ := strings.Cut(how, " ")
					if how == "hostname" {
						direct.Want("+OK\r\n", "CONFIG", "SET", "cluster-announce-hostname", "localhost")
					}
					direct.Want("+OK\r\n", "CONFIG", "SET", "cluster-preferred-endpoint-type", kind)
				}
			}
			running := proxytest.Start(t, cluster.Addrs())
			set(how)
			fresh := proxytest.Start(t, cluster.Addrs()[:1])
			for name, l := range map[string]*proxytest.Leash{"running": running, "fresh": fresh} {
				c := l.Dial(t)
				for i := range 20 {
					c.Want(t, "+OK\r\n", "SET", fmt.Sprint(name, i), "v")
				}
			}
			const key = "moves"
			for _, to := range cluster.Masters() { // one of them has the slot already
				if err := cluster.MoveSlot(int(slots.Of([]byte(key))), to); err != nil {
					t.Fatal(err)
				}
			}
			for name, l := range map[string]*proxytest.Leash{"running": running, "fresh": fresh} {
				c := l.Dial(t)
				c.Want(t, "+OK\r\n", "SET", key, name)
				if reply := c.Reply(t, "LOCK.ACQUIRE", key+name); reply[0] != ':' {
					t.Errorf("%s: %q", name, reply)
				}
				if strings.Contains(l.Logs.String(), "redis: nil") {
					t.Errorf("%s: the log has go-redis's own words:\n%s", name, l.Logs.Tail(20))
				}
			}
		})
	}
}
