package locks_test

import (
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestR16LocksOfClientGoneWhileBlocked checks that a blocking command ends in Redis as soon as
// its client is gone (R16, R28). Then the client's locks are free.
func TestR16LocksOfClientGoneWhileBlocked(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		for _, command := range [][]string{
			{"BLPOP", "jobs", "0"}, {"XREAD", "BLOCK", "0", "STREAMS", "jobs", "$"}, {"BZPOPMIN", "jobs", "0"},
		} {
			holder, next := l.Dial(t), l.Dial(t)
			proxytest.Token(t, holder, "order")
			if err := holder.Send(redistest.Command(command...)); err != nil {
				t.Fatal(err)
			}
			proxytest.Eventually(t, "it blocks", func() bool { return blockedIn(t, nodes...) == 1 })
			before := time.Now()
			holder.Close()
			next.Timeout = 25 * time.Second // and a TTL is 30
			proxytest.Token(t, next, "order", "BLOCK", "20000")
			t.Logf("%s: free after %v", command[0], time.Since(before))
			next.Want(t, ":1\r\n", "LOCK.RELEASE", "order")
		}
	})
}

func blockedIn(t testing.TB, nodes ...*redistest.Server) (n int) {
	for _, one := range nodes {
		n += proxytest.BlockedUpstream(t, one)
	}
	return n
}

// TestR16LocksStayWhileCommandMayRun checks that the locks of a client that is gone stay while
// Redis may still run its last command.
func TestR16LocksStayWhileCommandMayRun(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute})
	l := proxytest.Start(t, c.Addrs())
	order, jobs := proxytest.KeyOn(t, c, c.Nodes[0], "order"), proxytest.KeyOn(t, c, c.Nodes[1], "jobs")
	holder := l.Dial(t)
	proxytest.Token(t, holder, order)
	holder.Want(t, "+PONG\r\n", "PING")
	if err := holder.Send(redistest.Command("BLPOP", jobs, "0")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it blocks", func() bool { return proxytest.BlockedUpstream(t, c.Nodes[1].Server) == 1 })
	if err := c.Nodes[1].Pause(); err != nil {
		t.Fatal(err)
	}
	defer c.Nodes[1].Resume()
	holder.Close()
	proxytest.Eventually(t, "the session is over", func() bool { return l.Locks.Stats().Holds == 0 })
	if n := c.Nodes[0].Client().Exists(t.Context(), order).Val(); n != 1 {
		t.Error("the lock was released")
	}
}
