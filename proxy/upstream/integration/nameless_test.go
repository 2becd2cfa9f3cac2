package upstream_test

import (
	"strconv"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/slots"
)

// TestSlotThatMovesBetweenNodesWithoutNames checks that MOVED and ASK are followed in a cluster
// with unknown-endpoint, where they name no host.
func TestSlotThatMovesBetweenNodesWithoutNames(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	for _, n := range cluster.Nodes {
		redistest.Connect(t, n.Server.Addr).Want("+OK\r\n", "CONFIG", "SET", "cluster-preferred-endpoint-type",
			"unknown-endpoint")
	}
	l := proxytest.Start(t, cluster.Addrs()[:1])
	slot := int(slots.Of([]byte("{a}")))
	to := cluster.Masters()[0]
	if cluster.MasterOf(slot) == to {
		to = cluster.Masters()[1]
	}
	c := l.Dial(t)
	for i := range 10 {
		c.Want(t, "+OK\r\n", "SET", "{a}"+strconv.Itoa(i), "v")
	}
	if reply := c.Reply(t, "LOCK.ACQUIRE", "{a}held"); reply[0] != ':' {
		t.Fatal(reply)
	}
	move, err := cluster.BeginMove(slot, to)
	if err != nil {
		t.Fatal(err)
	}
	// the keys are at the new node, and the old one answers ASK
	if _, err := move.MoveKeys(-1); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		c.Want(t, "$1\r\nv\r\n", "GET", "{a}"+strconv.Itoa(i))
	}
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "GET", "{b}")
	c.Want(t, "*1\r\n$-1\r\n", "EXEC")
	c.Want(t, ":1\r\n", "LOCK.RELEASE", "{a}held")
	if err := move.Finish(); err != nil {
		t.Fatal(err)
	}
	c.Want(t, "+OK\r\n", "MULTI") // at the old node, which answers MOVED
	c.Want(t, "+QUEUED\r\n", "GET", "{a}1")
	c.Want(t, "*1\r\n$1\r\nv\r\n", "EXEC")
	c.Want(t, "$1\r\nv\r\n", "GET", "{a}2")
}
