package pubsub

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
	"leash/proxy/upstream"
)

// TestSubscriptionsFollowAFailover checks that subscriptions are made again after the home node and
// the owner of a sharded channel are killed.
func TestSubscriptionsFollowAFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	x := startExchange(t, cluster.Addrs())
	c := x.client(t)
	c.join(Channel, "news", "__keyevent@0__:set")
	c.join(Pattern, "n?ws")
	for i := range 1200 { // more than one command's worth
		c.join(Channel, fmt.Sprint("many", i))
	}
	home := homeOf(t, x, cluster)
	shard := redistest.KeyIn(slotOf(t, home), "s")
	c.join(Shard, shard)
	if err := home.Kill(); err != nil {
		t.Fatal(err)
	}
	master, err := cluster.AwaitMaster(redistest.Slot(shard), home, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is subscribed again", func() bool {
		return held(t, "NUMSUB", "news", servers(cluster.Nodes)...) == 1 &&
			held(t, "NUMSUB", "many1199", servers(cluster.Nodes)...) == 1 &&
			held(t, "SHARDNUMSUB", shard, master.Server) == 1 &&
			held(t, "NUMSUB", "__keyevent@0__:set", master.Server) == 1
	})
	before := len(c.messages())
	ask(t, master.Server, "PUBLISH", "news", "again")
	ask(t, master.Server, "PUBLISH", "many1199", "too")
	ask(t, master.Server, "SPUBLISH", shard, "sharded")
	c.await("many1199 too")
	c.await(shard + " sharded")
	got := c.messages()[before:]
	slices.Sort(got)
	if want := []string{"many1199 too", "news again", "news again", shard + " sharded"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// homeOf returns the node on which the Exchange has its plain subscriptions.
func homeOf(t *testing.T, x *Exchange, cluster *redistest.Cluster) *redistest.Node {
	t.Helper()
	x.mu.Lock()
	addr := x.hubs[""].home.node.Addr
	x.mu.Unlock()
	i := slices.IndexFunc(cluster.Nodes, func(n *redistest.Node) bool { return n.Announced() == addr })
	return cluster.Nodes[i]
}

// slotOf returns a slot that a node owns.
func slotOf(t *testing.T, n *redistest.Node) int {
	t.Helper()
	for _, r := range ask(t, n.Server, "CLUSTER", "SLOTS").([]any) {
		entry := r.([]any)
		if owner := entry[2].([]any); owner[2].(string) == n.ID {
			return int(entry[0].(int64))
		}
	}
	t.Fatal("the node has no slots")
	return 0
}

func TestShardedSubscriptionsFollowTheirSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	x := startExchange(t, cluster.Addrs())
	c := x.client(t)
	const shard = "{moving}"
	c.join(Shard, shard+"1", shard+"2", shard+"3")
	slot := redistest.Slot(shard)
	for range 4 {
		from := cluster.MasterOf(slot)
		to := cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%3]
		if err := cluster.MoveSlot(slot, to); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the subscriptions have followed", func() bool {
			return held(t, "SHARDNUMSUB", shard+"1", to.Server) == 1 &&
				held(t, "SHARDNUMSUB", shard+"3", to.Server) == 1
		})
		before := len(c.messages())
		ask(t, to.Server, "SPUBLISH", shard+"1", "m")
		ask(t, to.Server, "SPUBLISH", shard+"3", "m")
		eventually(t, "the messages", func() bool { return len(c.messages()) == before+2 })
		other := x.client(t) // a new one goes the right way
		other.join(Shard, shard+"2")
		other.Unsubscribe(t.Context(), Shard, []string{shard + "2"})
	}
}

// TestChurnWhileSlotsMove subscribes and unsubscribes while the slot moves back and forth and Redis
// ends subscriptions by itself.
func TestChurnWhileSlotsMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	var logged lines
	x := startExchange(t, cluster.Addrs())
	x.log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	const shard = "{moving}"
	slot := redistest.Slot(shard)
	ctx, stop := context.WithCancel(t.Context())
	var churning sync.WaitGroup
	stay := x.client(t)
	stay.join(Shard, shard+"stays")
	for i := range 8 {
		churning.Go(func() {
			c := x.client(t)
			for n := 0; ctx.Err() == nil; n++ {
				names := []string{fmt.Sprint(shard, i), fmt.Sprint(shard, n%5), shard + "stays"}
				if _, refusal, err := c.Subscribe(t.Context(), "", Shard, names); refusal != nil || err != nil {
					t.Errorf("%q %v", refusal, err)
					return
				}
				c.Unsubscribe(t.Context(), Shard, names)
			}
		})
	}
	for range 6 {
		from := cluster.MasterOf(slot)
		if err := cluster.MoveSlot(slot, cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%3]); err != nil {
			t.Error(err)
		}
		<-time.After(100 * time.Millisecond) // of churn
	}
	stop()
	churning.Wait()
	nodes := servers(cluster.Nodes)
	eventually(t, "what stays is subscribed once", func() bool {
		return held(t, "SHARDNUMSUB", shard+"stays", nodes...) == 1
	})
	for i := range 8 {
		if n := held(t, "SHARDNUMSUB", fmt.Sprint(shard, i), nodes...); n != 0 {
			t.Errorf("%d subscriptions to %d are left", n, i)
		}
	}
	ask(t, cluster.MasterOf(slot).Server, "SPUBLISH", shard+"stays", "m")
	stay.await(shard + "stays m")
	if text := logged.String(); strings.Contains(text, "connection ended") {
		t.Errorf("a connection was closed:\n%s", text)
	}
}

// lines keeps log lines. Safe for concurrent use.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestSubscribeWithStaleTopology checks that a sharded channel is subscribed at its owner although
// the topology is out of date.
func TestSubscribeWithStaleTopology(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	x := startExchange(t, cluster.Addrs())
	c := x.client(t)
	c.join(Shard, "{z}1")
	slot := redistest.Slot("{y}")
	from := cluster.MasterOf(slot)
	if err := cluster.MoveSlot(slot, cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%3]); err != nil {
		t.Fatal(err)
	}
	c.join(Shard, "{y}1", "{y}2")
	ask(t, cluster.MasterOf(slot).Server, "SPUBLISH", "{y}2", "m")
	c.await("{y}2 m")
	if _, refusal, err := c.Subscribe(t.Context(), "", Shard, []string{"{y}1", "{z}1"}); err != nil ||
		!strings.HasPrefix(string(refusal), "-CROSSSLOT") {
		t.Errorf("got %q %v", refusal, err)
	}
}

// TestSubscriptionsMoveFromSilentNode checks that the subscriptions move when the home node stops
// answering.
func TestSubscriptionsMoveFromSilentNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute})
	x := startExchange(t, cluster.Addrs(), func(c *upstream.Config) { c.UpstreamTimeout = 5 * time.Second })
	c := x.client(t)
	c.join(Channel, "news")
	home := homeOf(t, x, cluster)
	if err := home.Pause(); err != nil {
		t.Fatal(err)
	}
	defer home.Resume()
	other := cluster.Nodes[(slices.Index(cluster.Nodes, home)+1)%3]
	eventually(t, "it is subscribed elsewhere", func() bool {
		return held(t, "NUMSUB", "news", servers(cluster.Nodes)...) == 1
	})
	ask(t, other.Server, "PUBLISH", "news", "m")
	c.await("news m")
	home.Resume()
	eventually(t, "the subscription there is given up", func() bool {
		return held(t, "NUMSUB", "news", servers(cluster.Nodes)...) == 1
	})
}

// TestSubscriptionsLeaveADeadConnection checks that subscriptions are made again when only their
// own connection to the node is dead, as when a firewall has forgotten it.
func TestSubscriptionsLeaveADeadConnection(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	p, err := faultproxy.New(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	x := startExchange(t, []string{p.Addr()}, func(c *upstream.Config) {
		c.UpstreamTimeout, c.RedirectTimeout = 4*time.Second, time.Minute
	})
	c := x.client(t)
	c.join(Channel, "news")
	p.HoldBefore(faultproxy.Holding("last")) // and all that follows on that connection
	c.join(Channel, "last")
	eventually(t, "the other subscription is made again", func() bool {
		ask(t, redis, "PUBLISH", "news", "m")
		return slices.Contains(c.messages(), "news m")
	})
}
