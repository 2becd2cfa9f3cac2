package blocking_test

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/call"
	"leash/proxy/merge"
	"leash/proxy/tracking"
)

func awaitBlocked(t *testing.T, nodes []*redistest.Server, n int) {
	t.Helper()
	proxytest.Eventually(t, fmt.Sprint(n, " clients blocked upstream"), func() bool {
		sum := 0
		for _, node := range nodes {
			sum += proxytest.BlockedUpstream(t, node)
		}
		return sum == n
	})
}

// TestEveryBlockingCommand checks that each blocking command blocks, gets an element when one
// comes, and gets Redis's reply when its time-out passes.
func TestEveryBlockingCommand(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		plain := redistest.Start(t)
		for _, tc := range []struct{ block, feed []string }{
			{[]string{"BLPOP", "{k}1", "{k}2", "T"}, []string{"RPUSH", "{k}2", "v"}},
			{[]string{"BRPOP", "{k}1", "T"}, []string{"RPUSH", "{k}1", "v"}},
			{[]string{"BLMOVE", "{k}1", "{k}3", "LEFT", "RIGHT", "T"}, []string{"RPUSH", "{k}1", "v"}},
			{[]string{"BRPOPLPUSH", "{k}1", "{k}3", "T"}, []string{"RPUSH", "{k}1", "v"}},
			{[]string{"BLMPOP", "T", "2", "{k}1", "{k}2", "LEFT", "COUNT", "3"}, []string{"RPUSH", "{k}2", "v", "w"}},
			{[]string{"BZPOPMIN", "{k}z", "T"}, []string{"ZADD", "{k}z", "1", "v"}},
			{[]string{"BZPOPMAX", "{k}z", "T"}, []string{"ZADD", "{k}z", "1", "v"}},
			{[]string{"BZMPOP", "T", "1", "{k}z", "MIN"}, []string{"ZADD", "{k}z", "1", "v"}},
			{[]string{"XREAD", "BLOCK", "MS", "STREAMS", "{k}s", "$"}, []string{"XADD", "{k}s", "7-7", "f", "v"}},
			{[]string{"XREADGROUP", "GROUP", "BLOCK", "c", "BLOCK", "MS", "STREAMS", "{k}g", ">"},
				[]string{"XADD", "{k}g", "7-7", "f", "v"}},
		} {
			for _, proto := range []string{"2", "3"} {
				t.Run(tc.block[0]+" RESP"+proto, func(t *testing.T) {
					var replies [2][2]string
					for i, addr := range []string{plain.Addr, l.Addr} {
						servers := []*redistest.Server{plain}
						if i == 1 {
							servers = nodes
						}
						c, feeder := proxytest.Dial(t, addr), proxytest.Dial(t, addr)
						c.Reply(t, "HELLO", proto)
						feeder.Reply(t, "DEL", "{k}1", "{k}2", "{k}3", "{k}z", "{k}s", "{k}g")
						feeder.Reply(t, "XGROUP", "CREATE", "{k}g", "BLOCK", "$", "MKSTREAM")
						replies[i][0] = c.Reply(t, withTimeout(tc.block, "0.01", "10")...)
						if err := c.Send(redistest.Command(withTimeout(tc.block, "0", "0")...)); err != nil {
							t.Fatal(err)
						}
						awaitBlocked(t, servers, 1)
						feeder.Reply(t, tc.feed...)
						got, err := c.Read()
						if err != nil {
							t.Fatal(err)
						}
						replies[i][1] = got
						c.Want(t, "$2\r\nhi\r\n", "ECHO", "hi")
					}
					if replies[0] != replies[1] {
						t.Fatalf("leash: %q\nredis: %q", replies[1], replies[0])
					}
				})
			}
		}
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	})
}

func withTimeout(args []string, seconds, ms string) []string {
	args = append([]string(nil), args...)
	for i, a := range args {
		switch a {
		case "T":
			args[i] = seconds
		case "MS":
			args[i] = ms
		}
	}
	return args
}

// TestClosedClientTakesNoElement checks that a blocked client that closes takes no element,
// even with a long pipeline behind the command.
func TestClosedClientTakesNoElement(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		feeder := l.Dial(t)
		for _, behind := range []int{0, 400_000} {
			c := l.Dial(t)
			raw := redistest.Command("BLPOP", "list", "0") + strings.Repeat(redistest.Command("PING"), behind/14)
			if err := c.Send(raw); err != nil {
				t.Fatal(err)
			}
			awaitBlocked(t, nodes, 1)
			c.Close()
			awaitBlocked(t, nodes, 0)
			feeder.Want(t, ":1\r\n", "RPUSH", "list", "e")
			feeder.Want(t, "$1\r\ne\r\n", "LPOP", "list")
		}
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	})
}

// TestThousandsOfBlockedClients checks that thousands of blocked clients delay no other client, and
// that each gets one element.
func TestThousandsOfBlockedClients(t *testing.T) {
	t.Parallel()
	const waiters = 1500
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		clients := make([]*redistest.Client, waiters)
		for i := range clients {
			clients[i] = l.Dial(t)
			if err := clients[i].Send(redistest.Command("BRPOP", "q", "0")); err != nil {
				t.Fatal(err)
			}
		}
		awaitBlocked(t, nodes, waiters)
		feeder := l.Dial(t)
		feeder.Want(t, "+OK\r\n", "SET", "other", "v")
		for i := range clients {
			feeder.Reply(t, "LPUSH", "q", strconv.Itoa(i))
		}
		seen := make(map[string]bool)
		for _, c := range clients {
			got, err := c.Read()
			if err != nil || seen[got] || !strings.HasPrefix(got, "*2\r\n$1\r\nq\r\n") {
				t.Fatalf("%q %v, seen before: %v", got, err, seen[got])
			}
			seen[got] = true
		}
		feeder.Want(t, ":0\r\n", "EXISTS", "q")
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	})
}

// TestClientUnblock checks that CLIENT UNBLOCK with TIMEOUT and ERROR gives Redis's replies.
func TestClientUnblock(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		c, other := l.Dial(t), l.Dial(t)
		id := strings.Trim(c.Reply(t, "CLIENT", "ID"), ":\r\n")
		other.Want(t, ":0\r\n", "CLIENT", "UNBLOCK", id)
		other.Want(t, ":0\r\n", "CLIENT", "UNBLOCK", "999999")
		other.Want(t, "-ERR value is not an integer or out of range\r\n", "CLIENT", "UNBLOCK", "x")
		other.Want(t, "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n", "CLIENT", "UNBLOCK", id, "WHY")
		for _, tc := range []struct{ reason, reply string }{
			{"TIMEOUT", "*-1\r\n"}, {"ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"},
		} {
			if err := c.Send(redistest.Command("BLPOP", "nothing", "0")); err != nil {
				t.Fatal(err)
			}
			awaitBlocked(t, nodes, 1)
			other.Want(t, ":1\r\n", "CLIENT", "UNBLOCK", id, tc.reason)
			if got, err := c.Read(); err != nil || got != tc.reply {
				t.Fatalf("%q %v", got, err)
			}
			c.Want(t, "+PONG\r\n", "PING")
		}
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	})
}

// TestClientUnblockOfALockCommand checks that CLIENT UNBLOCK ends a waiting lock command, in both
// protocols. The commands behind it then run.
func TestClientUnblockOfALockCommand(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, _ []*redistest.Server) {
		holder, c, other := l.Dial(t), l.Dial(t), l.Dial(t)
		proxytest.Token(t, holder, "k")
		id := strings.Trim(c.Reply(t, "CLIENT", "ID"), ":\r\n")
		for _, tc := range []struct{ protocol, reason, reply string }{
			{"2", "TIMEOUT", "$-1\r\n"}, {"2", "ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"},
			{"3", "TIMEOUT", "_\r\n"},
		} {
			c.Reply(t, "HELLO", tc.protocol)
			if err := c.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0") +
				redistest.Command("PING")); err != nil {
				t.Fatal(err)
			}
			proxytest.Eventually(t, "unblocked", func() bool {
				return other.Reply(t, "CLIENT", "UNBLOCK", id, tc.reason) == ":1\r\n"
			})
			proxytest.WantRead(t, c, tc.reply)
			proxytest.WantRead(t, c, "+PONG\r\n")
			other.Want(t, ":0\r\n", "CLIENT", "UNBLOCK", id)
		}
		holder.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
		proxytest.Token(t, other, "k")
	})
}

// TestBlockedCommandFollowsItsSlot checks that a blocked command follows its slot. Redis unblocks
// it with MOVED, which the client does not see.
func TestBlockedCommandFollowsItsSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, cluster.Addrs())
	key := redistest.KeyIn(100, "list")
	c, feeder := l.Dial(t), l.Dial(t)
	if err := c.Send(redistest.Command("BLPOP", key, "0")); err != nil {
		t.Fatal(err)
	}
	from := cluster.MasterOf(100)
	awaitBlocked(t, []*redistest.Server{from.Server}, 1)
	var to *redistest.Node
	for _, n := range cluster.Masters() {
		if n != from {
			to = n
		}
	}
	if err := cluster.MoveSlot(100, to); err != nil {
		t.Fatal(err)
	}
	feeder.Want(t, ":1\r\n", "RPUSH", key, "v")
	if got, err := c.Read(); err != nil || !strings.HasSuffix(got, "$1\r\nv\r\n") {
		t.Fatalf("%q %v", got, err)
	}
}

// TestWaitCountsTheSessionsOwnWrites checks that WAIT returns 0 when the replica of the node that
// the session wrote to is stopped, even if other replicas answer.
func TestWaitCountsTheSessionsOwnWrites(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1, NodeTimeout: 30 * time.Second})
	l := proxytest.Start(t, cluster.Addrs())
	c := l.Dial(t)
	for slot := range 3 {
		c.Want(t, "+OK\r\n", "SET", redistest.KeyIn(slot*6000, "k"), "v")
	}
	c.Want(t, ":1\r\n", "WAIT", "1", "5000")
	replica := cluster.ReplicaOf(0)
	if err := replica.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replica.Resume() }()
	c.Want(t, "+OK\r\n", "SET", redistest.KeyIn(12000, "k"), "v")
	c.Want(t, "+OK\r\n", "SET", redistest.KeyIn(0, "k"), "w")
	c.Want(t, ":0\r\n", "WAIT", "1", "200")
	other := l.Dial(t)
	other.Want(t, "+OK\r\n", "SET", redistest.KeyIn(12000, "k"), "v")
	other.Want(t, ":1\r\n", "WAIT", "1", "5000")
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}

// TestStopDoesNotWaitForBlockedCommands checks that a stop does not wait for blocked commands,
// because they may never end.
func TestStopDoesNotWaitForBlockedCommands(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.DrainTimeout = time.Minute })
	c := l.Dial(t)
	if err := c.Send(redistest.Command("BLPOP", "list", "0")); err != nil {
		t.Fatal(err)
	}
	awaitBlocked(t, []*redistest.Server{redis}, 1)
	stopped := make(chan struct{})
	go func() { l.Stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(30 * time.Second):
		t.Fatal("leash waits")
	}
	if err := c.AwaitEnd(); err != nil {
		t.Fatal(err)
	}
	awaitBlocked(t, []*redistest.Server{redis}, 0)
}

// TestStopDeliversAPoppedElement checks that a stop loses no element that Redis has already popped
// for a client.
func TestStopDeliversAPoppedElement(t *testing.T) {
	redis, fault := proxytest.Faulty(t)
	l := proxytest.Start(t, []string{fault.Addr()}, func(o *proxytest.Options) { o.Front.DrainTimeout = time.Minute })
	c, idle := l.Dial(t), l.Dial(t)
	idle.Want(t, "+PONG\r\n", "PING")
	held := fault.HoldAfter(faultproxy.Named("BLPOP"))
	if err := c.Send(redistest.Command("BLPOP", "list", "0")); err != nil {
		t.Fatal(err)
	}
	awaitBlocked(t, []*redistest.Server{redis}, 1)
	if err := redis.Client().RPush(t.Context(), "list", "e").Err(); err != nil {
		t.Fatal(err)
	}
	<-held.Triggered()
	go l.Stop()
	if err := idle.AwaitEnd(); err != nil {
		t.Fatal(err)
	}
	held.Release()
	if got, err := c.Read(); err != nil || got != "*2\r\n$4\r\nlist\r\n$1\r\ne\r\n" {
		t.Fatalf("BLPOP: %q %v", got, err)
	}
	if err := c.AwaitEnd(); err != nil {
		t.Error(err)
	}
}

// TestStopLosesNoElementThatIsPushed checks that a stop loses no element that is pushed at the same
// moment. Redis finds the pushes and what Leash sends together, because it was paused.
func TestStopLosesNoElementThatIsPushed(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.DrainTimeout = time.Minute })
	const n = 20
	clients := make([]*redistest.Client, n)
	for i := range clients {
		clients[i] = l.Dial(t)
		if err := clients[i].Send(redistest.Command("BLPOP", "list", "0")); err != nil {
			t.Fatal(err)
		}
	}
	idle := l.Dial(t)
	pusher, err := redis.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer pusher.Close()
	idle.Want(t, "+PONG\r\n", "PING")
	awaitBlocked(t, []*redistest.Server{redis}, n)
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	for i := range n / 2 {
		if err := pusher.Send(redistest.Command("RPUSH", "list", strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	go l.Stop()
	if err := idle.AwaitEnd(); err != nil {
		t.Fatal(err)
	}
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
	popped := 0
	for _, c := range clients {
		for got, err := c.Read(); err == nil; got, err = c.Read() {
			if !strings.HasPrefix(got, "*2\r\n") {
				t.Errorf("BLPOP: %q", got)
			}
			popped++
		}
	}
	for range n / 2 {
		if _, err := pusher.Read(); err != nil {
			t.Fatal(err)
		}
	}
	left, err := redis.Client().LLen(t.Context(), "list").Result()
	if popped+int(left) != n/2 || err != nil {
		t.Errorf("%d elements were popped and %d are left of %d, %v", popped, left, n/2, err)
	}
}

// TestWaitAfterFailover checks that WAIT reports no replica for writes to a former master. Later
// writes count again.
func TestWaitAfterFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	c := proxytest.Start(t, cluster.Addrs()).Dial(t)
	key := redistest.KeyIn(1, "k")
	c.Want(t, "+OK\r\n", "SET", key, "1")
	c.Want(t, ":1\r\n", "WAIT", "1", "5000")
	if err := cluster.Failover(cluster.ReplicaOf(1)); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "WAIT is right again", func() bool {
		c.Want(t, "+OK\r\n", "SET", key, "2")
		return c.Reply(t, "WAIT", "1", "1000") == ":1\r\n"
	})
}

// TestRedisEndsABlockingCommand checks that a client is closed when Redis closes the connection of
// its blocking command, as Redis closes its own clients. A client with a lock gets an error.
func TestRedisEndsABlockingCommand(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		holder := l.Dial(t)
		token := holder.Reply(t, "LOCK.ACQUIRE", "lock")
		plain := make([]*redistest.Client, 3)
		for i, cmd := range [][]string{
			{"BLPOP", "list", "0"}, {"BLMOVE", "{k}a", "{k}b", "LEFT", "LEFT", "0"}, {"XREAD", "BLOCK", "0", "STREAMS", "s", "$"},
		} {
			plain[i] = l.Dial(t)
			if err := plain[i].Send(redistest.Command("ECHO", "first") + redistest.Command(cmd...)); err != nil {
				t.Fatal(err)
			}
		}
		if err := holder.Send(redistest.Command("BLPOP", "list", "0")); err != nil {
			t.Fatal(err)
		}
		awaitBlocked(t, nodes, 4)
		for _, n := range nodes {
			list, err := n.Client().ClientList(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(list) {
				if id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " "); strings.Contains(line, " flags=b ") {
					n.Client().ClientKillByFilter(t.Context(), "ID", id)
				}
			}
		}
		for i, c := range plain {
			proxytest.WantRead(t, c, "$5\r\nfirst\r\n")
			if got, err := c.Read(); !errors.Is(err, io.EOF) {
				t.Errorf("client %d: %q %v", i, got, err)
			}
		}
		proxytest.WantRead(t, holder, "-"+call.ErrorLost+"\r\n")
		holder.Want(t, ":1\r\n", "LOCK.CHECK", "lock", "TOKEN", strings.Trim(token, ":\r\n"))
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	})
}

// TestSilentRedis checks what happens to commands on pinned connections when Redis is silent for
// the upstream time-out. They get an error, and the session goes on. A client that is blocked in
// Redis is closed.
func TestSilentRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.Upstream.UpstreamTimeout = 4 * time.Second
	})
	blocked, waits, queues, watches, tracks := l.Dial(t), l.Dial(t), l.Dial(t), l.Dial(t), l.Dial(t)
	if err := blocked.Send(redistest.Command("BLPOP", "list", "0")); err != nil {
		t.Fatal(err)
	}
	waits.Want(t, "+OK\r\n", "SET", "k", "v")
	queues.Want(t, "+OK\r\n", "MULTI")
	queues.Want(t, "+QUEUED\r\n", "INCR", "n")
	watches.Want(t, "+OK\r\n", "WATCH", "n")
	tracks.Reply(t, "HELLO", "3")
	tracks.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
	tracks.Want(t, "$1\r\nv\r\n", "GET", "k")
	awaitBlocked(t, []*redistest.Server{redis}, 1)
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		client *redistest.Client
		args   []string
	}{{waits, []string{"WAIT", "0", "0"}}, {queues, []string{"EXEC"}}, {watches, []string{"MULTI"}}} {
		if err := c.client.Send(redistest.Command(c.args...)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := blocked.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("BLPOP: %q %v", got, err)
	}
	for name, c := range map[string]*redistest.Client{"WAIT": waits, "EXEC": queues} {
		if got, err := c.Read(); err != nil || !strings.HasPrefix(got, "-UPSTREAM") {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	proxytest.WantRead(t, tracks, tracking.InvalidateAll)
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "redis serves again", func() bool { return waits.Reply(t, "SET", "k", "w") == "+OK\r\n" })
	if got, err := watches.Read(); err != nil || got != "+OK\r\n" && got != "-"+merge.NotSent+"\r\n" {
		t.Errorf("MULTI: %q %v", got, err)
	}
	watches.Want(t, "+OK\r\n", "DISCARD")
	queues.Want(t, "+PONG\r\n", "PING")
	for _, c := range []*redistest.Client{waits, queues, watches, tracks} {
		c.Close()
	}
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	proxytest.Eventually(t, "no client is blocked in Redis", func() bool { return proxytest.BlockedUpstream(t, redis) == 0 })
}
