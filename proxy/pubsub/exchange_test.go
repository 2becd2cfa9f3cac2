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

	"leash/internal/embedded"
	"leash/internal/redistest"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/upstream"
)

// startExchange runs an Exchange until the test ends.
func startExchange(t *testing.T, addrs []string, set ...func(*upstream.Config)) *Exchange {
	t.Helper()
	cfg := upstream.Config{Addrs: addrs}
	for _, f := range set {
		f(&cfg)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	up, err := upstream.New(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		up.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return New(up, log)
}

// client is a session that a test plays. Safe for concurrent use.
type client struct {
	*Listener
	t *testing.T

	mu     sync.Mutex
	heard  []string // messages as "channel payload"
	closed string
}

func (x *Exchange) client(t *testing.T) *client {
	c := &client{t: t}
	c.Listener = x.Listener(c)
	return c
}

func (c *client) Message(frame []byte) links.Flusher {
	f := parseFrame(frame)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, string(f.channel)+" "+string(f.payload))
	return nil
}

func (c *client) Close(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = reason
}

func (c *client) messages() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.heard)
}

func (c *client) join(kind Kind, names ...string) {
	c.t.Helper()
	if _, refusal, err := c.Subscribe(c.t.Context(), "", kind, names); refusal != nil || err != nil {
		c.t.Fatalf("%s %q: %q %v", kind.Joined(), names, refusal, err)
	}
}

// await waits until a message has come.
func (c *client) await(message string) {
	c.t.Helper()
	eventually(c.t, message+" is heard", func() bool { return slices.Contains(c.messages(), message) })
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(2 * time.Millisecond) // between looks
	}
}

// ask runs a command directly on a node.
func ask(t testing.TB, n *redistest.Server, args ...any) any {
	t.Helper()
	v, err := n.Client().Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// held returns how many subscribers the nodes count for a channel.
func held(t testing.TB, command, channel string, nodes ...*redistest.Server) (n int64) {
	t.Helper()
	for _, node := range nodes {
		if node.Running() {
			n += ask(t, node, "PUBSUB", command, channel).([]any)[1].(int64)
		}
	}
	return n
}

func servers(nodes []*redistest.Node) (s []*redistest.Server) {
	for _, n := range nodes {
		s = append(s, n.Server)
	}
	return s
}

// TestUsersShareOneHomeNode checks that all users' subscriptions are on one node. Nodes of a
// cluster get a message one after the other. If the homes differed, a client could leave a channel,
// join it as another user and get a message twice.
func TestUsersShareOneHomeNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	x := startExchange(t, cluster.Addrs())
	homes := make(map[*links.Node]bool)
	// it does no harm here that Redis knows none of these users
	for _, user := range []string{"", "a", "b", "c", "d"} {
		x.mu.Lock()
		if l := x.hubLocked(user).homeLocked(); l != nil {
			homes[l.node] = true
		}
		x.mu.Unlock()
	}
	if len(homes) != 1 {
		t.Errorf("the users have %d homes", len(homes))
	}
}

func TestTenThousandListenersShareOneSubscription(t *testing.T) {
	cluster := redistest.StartCluster(t)
	x, nodes := startExchange(t, cluster.Addrs()), servers(cluster.Nodes)
	const n = 10_000
	clients := make([]*client, n)
	var joining sync.WaitGroup
	for i := range clients {
		clients[i] = x.client(t)
	}
	for part := range slices.Chunk(clients, n/20) {
		joining.Go(func() {
			for _, c := range part {
				c.join(Channel, "news")
				c.join(Shard, "shard")
			}
		})
	}
	joining.Wait()
	for command, channel := range map[string]string{"NUMSUB": "news", "SHARDNUMSUB": "shard"} {
		if got := held(t, command, channel, nodes...); got != 1 {
			t.Errorf("redis has %d subscriptions to %s", got, channel)
		}
	}
	if s := x.Stats(); s.Listeners != 2*n || s.Subscriptions != 2 {
		t.Errorf("got %+v", s)
	}
	ask(t, nodes[1], "PUBLISH", "news", "1")
	ask(t, cluster.MasterOf(redistest.Slot("shard")).Server, "SPUBLISH", "shard", "2")
	for _, c := range clients {
		c.await("news 1")
		c.await("shard 2")
	}
	for i, c := range clients {
		if i%2 == 0 {
			c.UnsubscribeAll()
		} else {
			c.Unsubscribe(t.Context(), Channel, []string{"news"})
			c.Unsubscribe(t.Context(), Shard, []string{"shard"})
		}
	}
	if got := held(t, "NUMSUB", "news", nodes...) + held(t, "SHARDNUMSUB", "shard", nodes...); got != 0 {
		t.Errorf("redis still has %d subscriptions", got)
	}
	if s := x.Stats(); s.Listeners != 0 || s.Subscriptions != 0 {
		t.Errorf("got %+v", s)
	}
	eventually(t, "the connections are closed", func() bool { return x.Stats().Connections == 0 })
}

func TestKeyspaceEventsOfEveryMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1,
		Args: []string{"--notify-keyspace-events", "KEA"}})
	x := startExchange(t, cluster.Addrs())
	events, all, some := x.client(t), x.client(t), x.client(t)
	events.join(Channel, "__keyevent@0__:set")
	all.join(Pattern, "*")
	some.join(Pattern, "__key*:{[ab]*")
	some.join(Pattern, "news*")
	for i, n := range cluster.Nodes[:3] {
		key := redistest.KeyIn(slotOf(t, n), fmt.Sprint("k", i))
		ask(t, n.Server, "SET", key, "v")
		events.await("__keyevent@0__:set " + key)
		all.await("__keyevent@0__:set " + key)
		all.await("__keyspace@0__:" + key + " set")
		ask(t, n.Server, "PUBLISH", "news", key)
		all.await("news " + key)
		some.await("news " + key)
	}
	for name, got := range map[string][]string{"events": events.messages(), "all": all.messages(),
		"some": some.messages()} {
		if want := map[string]int{"events": 3, "all": 9, "some": 3}[name]; len(got) != want {
			t.Errorf("%s: got %d messages: %q", name, len(got), got)
		}
	}
}

func TestNoMessageIsLostBehindTheConfirmation(t *testing.T) {
	redis := redistest.Start(t)
	x := startExchange(t, []string{redis.Addr})
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				ask(t, redis, "PUBLISH", "count", fmt.Sprintf("%09d", i))
			}
		}
	})
	var joining sync.WaitGroup
	for range 8 {
		joining.Go(func() {
			for i := range 40 {
				c := x.client(t)
				c.join(Channel, "count")
				marker := fmt.Sprintf("count marker%p.%d", c, i)
				ask(t, redis, "PUBLISH", "count", strings.TrimPrefix(marker, "count "))
				c.await(marker)
				c.Unsubscribe(t.Context(), Channel, []string{"count"})
				got := c.messages()
				<-time.After(time.Millisecond)
				if after := c.messages(); len(after) != len(got) {
					t.Errorf("a message came after the end: %q", after[len(got):])
				}
				last := -1
				for _, m := range got {
					var n int
					if _, err := fmt.Sscanf(m, "count 0%d", &n); err != nil {
						continue
					}
					if last >= 0 && n != last+1 {
						t.Errorf("%d follows %d", n, last)
					}
					last = n
				}
			}
		})
	}
	joining.Wait()
	close(stop)
	publishing.Wait()
}

func TestListenersLoseTheirRights(t *testing.T) {
	redis := redistest.Start(t)
	x := startExchange(t, []string{redis.Addr})
	ask(t, redis, "ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all", "resetchannels", "&a*", "&b*")
	x.up.Nodes.Join(dial.Lane{User: "bob"})
	if _, ok, err := x.up.Authenticate(t.Context(), []byte("AUTH bob pw\r\n"), "bob", []byte("pw")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	as, bs, other := x.client(t), x.client(t), x.client(t)
	for c, name := range map[*client]string{as: "a1", bs: "b1"} {
		if _, refusal, err := c.Subscribe(t.Context(), "bob", Channel, []string{name}); refusal != nil || err != nil {
			t.Fatal(string(refusal), err)
		}
	}
	other.join(Channel, "a1", "c1")
	const denied = "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n"
	if _, refusal, _ := as.Subscribe(t.Context(), "bob", Channel, []string{"a2", "c1"}); string(refusal) != denied {
		t.Errorf("got %q", refusal)
	}
	if as.Count(Channel) != 1 || held(t, "NUMSUB", "a2", redis) != 0 {
		t.Error("a refused subscription left something behind")
	}
	ask(t, redis, "ACL", "SETUSER", "bob", "resetchannels", "&b*")
	eventually(t, "the client that lost the right is closed", func() bool {
		as.mu.Lock()
		defer as.mu.Unlock()
		return strings.Contains(as.closed, "NOPERM")
	})
	eventually(t, "the client with the right is subscribed again", func() bool {
		return held(t, "NUMSUB", "b1", redis) == 1
	})
	ask(t, redis, "PUBLISH", "b1", "m")
	ask(t, redis, "PUBLISH", "a1", "m")
	bs.await("b1 m")
	other.await("a1 m")
	if bs.closed != "" || other.closed != "" || len(as.messages()) != 0 {
		t.Errorf("other clients were affected: %q %q %q", bs.closed, other.closed, as.messages())
	}
	ask(t, redis, "ACL", "SETUSER", "bob", "resetpass")
	ask(t, redis, "CLIENT", "KILL", "USER", "bob")
	eventually(t, "the client with the refused credential is closed", func() bool {
		bs.mu.Lock()
		defer bs.mu.Unlock()
		return bs.closed == "credential refused"
	})
}

// TestEmbeddedRedis checks that the embedded Redis works, which has no sharded channels and closes
// on inline commands.
func TestEmbeddedRedis(t *testing.T) {
	t.Parallel()
	redis, err := embedded.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	x := startExchange(t, []string{redis.Addr()}, func(c *upstream.Config) { c.Mode = "standalone" })
	c := x.client(t)
	c.join(Channel, "a", "b")
	c.join(Pattern, "a*")
	if _, refusal, err := c.Subscribe(t.Context(), "", Shard, []string{"s"}); len(refusal) == 0 || err != nil {
		t.Errorf("got %q %v", refusal, err)
	}
	heard := make(chan string, 1)
	ready, cancel := x.Subscribe("a", true, true, func(m []byte) { heard <- string(m) })
	defer cancel()
	<-ready
	x.mu.Lock()
	home := x.hubs[""].home
	x.mu.Unlock()
	before := home.link.Heard()
	eventually(t, "it has answered two PINGs", func() bool { return home.link.Heard() > before+2*pingEvery })
	publisher, err := redistest.Dial(redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	if got, err := publisher.Do("PUBLISH", "a", "m"); got != ":2\r\n" || err != nil {
		t.Errorf("got %q %v", got, err)
	}
	if m := <-heard; m != "m" {
		t.Errorf("heard %q", m)
	}
	eventually(t, "both messages", func() bool { return len(c.messages()) == 2 })
}
