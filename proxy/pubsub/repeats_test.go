package pubsub

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
)

// TestNoMessageComesTwiceWhenTheHomeNodeChanges checks that a subscriber gets a message once while
// the home node changes. The next home gets the message after the subscription, and the present
// home has sent it already.
func TestNoMessageComesTwiceWhenTheHomeNodeChanges(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute})
	x := startExchange(t, cluster.Addrs())
	c := x.client(t)
	c.join(Pattern, "__key*") // has a connection to each master
	c.join(Channel, "news")
	c.join(Pattern, "n?ws")
	eventually(t, "each master has the pattern", func() bool { return x.Stats().Subscriptions == 5 })
	for round := range 3 {
		home := homeOf(t, x, cluster)
		next := cluster.Nodes[(slices.Index(cluster.Nodes, home)+1)%3]
		if err := next.Pause(); err != nil {
			t.Fatal(err)
		}
		defer next.Resume()
		x.mu.Lock()
		h := x.hubs[""]
		var l *line
		for n, other := range h.lines {
			if n.Addr == next.Announced() {
				l = other
			}
		}
		h.home = l
		h.recheckLocked()
		x.mu.Unlock()
		eventually(t, "the next home is asked", func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return l.state[Channel]["news"] == asked && l.state[Pattern]["n?ws"] == asked // the link writes at once
		})
		once := fmt.Sprint("once", round)
		ask(t, home.Server, "PUBLISH", "news", once)
		eventually(t, "the present home sends the message", func() bool {
			return count(c.messages(), "news "+once) == 2
		})
		if err := next.Resume(); err != nil {
			t.Fatal(err)
		}
		last := fmt.Sprint("last", round)
		eventually(t, "the subscriptions have moved", func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return h.entries[Channel]["news"].source == l && h.entries[Pattern]["n?ws"].source == l
		})
		ask(t, home.Server, "PUBLISH", "news", last)
		eventually(t, "the next home sends messages", func() bool { return count(c.messages(), "news "+last) == 2 })
		if n := count(c.messages(), "news "+once); n != 2 {
			t.Errorf("a message came %d times by a channel and a pattern", n)
		}
	}
}

func count(all []string, one string) (n int) {
	for _, m := range all {
		if m == one {
			n++
		}
	}
	return n
}

// messagesUntilLast returns what has reached a subscriber of news at a node. Between nodes, Redis
// loses messages when a link of its cluster bus breaks.
func messagesUntilLast(t *testing.T, direct *redis.PubSub, at *redistest.Node) (all []string) {
	t.Helper()
	ask(t, at.Server, "PUBLISH", "news", "last")
	for len(all) == 0 || all[len(all)-1] != "last" {
		m, err := direct.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m.Payload)
	}
	return all
}

// TestSubscribersStayAtDemotedHome checks that subscribers stay at a home node that
// becomes a replica, because messages of a cluster reach replicas too.
func TestSubscribersStayAtDemotedHome(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	x := startExchange(t, cluster.Addrs())
	c := x.client(t)
	c.join(Channel, "news", "__keyevent@0__:set")
	home := homeOf(t, x, cluster)
	direct := home.Client().Subscribe(t.Context(), "news")
	defer direct.Close()
	if _, err := direct.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	slot := slotOf(t, home)
	replica := cluster.ReplicaOf(slot)
	ctx, stop := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	published := 0
	publishing.Go(func() {
		for ctx.Err() == nil {
			ask(t, cluster.Nodes[published%len(cluster.Nodes)].Server, "PUBLISH", "news", fmt.Sprint(published))
			published++
			<-time.After(time.Millisecond) // some hundred a second
		}
	})
	if err := cluster.Failover(replica); err != nil {
		t.Fatal(err)
	}
	eventually(t, "events of the new master are asked for", func() bool {
		x.up.Refresh()
		return held(t, "NUMSUB", "__keyevent@0__:set", replica.Server) == 1
	})
	stop()
	publishing.Wait()
	reached := messagesUntilLast(t, direct, home)
	for _, m := range reached {
		c.await("news " + m)
	}
	if now := homeOf(t, x, cluster); now != home {
		t.Error("the home has changed")
	}
	for i := range published {
		if n := count(c.messages(), fmt.Sprint("news ", i)); n > 1 {
			t.Errorf("message %d of %d has come %d times", i, published, n)
		}
	}
	if len(reached) < published/2 {
		t.Errorf("%d of %d messages have come", len(reached), published)
	}
	for _, n := range servers(cluster.Nodes) {
		ask(t, n, "CONFIG", "SET", "notify-keyspace-events", "KEA")
	}
	key := redistest.KeyIn(slot, "k")
	eventually(t, "an event of the new master is heard", func() bool {
		ask(t, replica.Server, "SET", key, "v")
		return count(c.messages(), "__keyevent@0__:set "+key) > 0
	})
	// all earlier messages have come, from the new master and from the home
	settle := func(mark string) {
		last := redistest.KeyIn(slot, mark)
		ask(t, replica.Server, "SET", last, "v")
		c.await("__keyevent@0__:set " + last)
		ask(t, replica.Server, "WAIT", "1", "10000") // the replica, which is home, has executed all
		ask(t, replica.Server, "PUBLISH", "news", mark)
		c.await("news " + mark)
	}
	settle("begin")
	before := count(c.messages(), "__keyevent@0__:set "+key)
	for range 10 {
		ask(t, replica.Server, "SET", key, "v")
	}
	settle("end")
	if n := count(c.messages(), "__keyevent@0__:set "+key) - before; n != 10 {
		t.Errorf("10 events have come as %d", n)
	}
}

// TestNoMessageComesTwiceThroughFailovers checks that no message comes twice while masters are
// demoted, killed and started again, and connections for subscriptions are killed. Messages are
// published at all nodes.
func TestNoMessageComesTwiceThroughFailovers(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	x := startExchange(t, cluster.Addrs())
	c := x.client(t)
	c.join(Channel, "news")
	c.join(Pattern, "[n]ews")
	slots := []int{100, 8000, 16000}
	for _, slot := range slots {
		c.join(Shard, redistest.KeyIn(slot, "shard"))
	}
	ctx, stop := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	for i, n := range cluster.Nodes {
		publishing.Go(func() {
			for seq := 0; ctx.Err() == nil; seq++ {
				m := fmt.Sprintf("%d-%d", i, seq)
				_ = n.Client().Publish(ctx, "news", m).Err() // a node that is down loses it
				_ = n.Client().SPublish(ctx, redistest.KeyIn(slots[i%3], "shard"), m).Err()
				<-time.After(time.Millisecond) // some hundred a second
			}
		})
	}
	for round := range 3 {
		home := homeOf(t, x, cluster)
		ask(t, home.Server, "CLIENT", "KILL", "TYPE", "pubsub")
		slot := slots[round]
		if err := cluster.Failover(cluster.ReplicaOf(slot)); err != nil {
			t.Error(err)
		}
		eventually(t, "there is a home", func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.hubs[""].home != nil
		})
	}
	home := homeOf(t, x, cluster)
	if err := home.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is another home", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		h := x.hubs[""].home
		return h != nil && h.node.Addr != home.Announced() && h.state[Channel]["news"] == joined
	})
	c.await("news " + again(t, cluster, home))
	eventually(t, "enough messages have come", func() bool { return len(times(c)) >= 100 })
	stop()
	publishing.Wait()
	for m, n := range times(c) {
		limit := 1
		if strings.HasPrefix(m, "news ") {
			limit = 2 // a channel and a pattern
		}
		if n > limit {
			t.Errorf("%q has come %d times", m, n)
		}
	}
}

// times returns how often each message has come.
func times(c *client) map[string]int {
	counts := make(map[string]int)
	for _, m := range c.messages() {
		counts[m]++
	}
	return counts
}

// again publishes at another node than the given one.
func again(t *testing.T, cluster *redistest.Cluster, not *redistest.Node) string {
	t.Helper()
	for _, n := range cluster.Nodes {
		if n != not && n.Running() {
			ask(t, n.Server, "PUBLISH", "news", "after")
			return "after"
		}
	}
	t.Fatal("no node runs")
	return ""
}
