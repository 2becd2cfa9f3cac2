package proxy

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
	"leash/proxy/merge"
	"leash/proxy/tracking"
)

// blockedUpstream counts the blocked clients of a node.
func blockedUpstream(t testing.TB, n *redistest.Server) int {
	t.Helper()
	info, err := n.Client().Info(t.Context(), "clients").Result()
	if err != nil {
		t.Fatal(err)
	}
	return infoNumber(info, "blocked_clients")
}

func infoNumber(info, name string) int {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(v))
			return n
		}
	}
	return -1
}

// bothUpstreams runs f in front of a cluster and of a single Redis.
func bothUpstreams(t *testing.T, f func(t *testing.T, l *leash, nodes []*redistest.Server)) {
	t.Run("cluster", func(t *testing.T) {
		c := redistest.StartCluster(t, redistest.ClusterOptions{})
		var nodes []*redistest.Server
		for _, n := range c.Nodes {
			nodes = append(nodes, n.Server)
		}
		f(t, startLeash(t, c.Addrs()), nodes)
	})
	t.Run("standalone", func(t *testing.T) {
		r := redistest.Start(t)
		f(t, startLeash(t, []string{r.Addr}), []*redistest.Server{r})
	})
}

func awaitBlocked(t *testing.T, nodes []*redistest.Server, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " clients blocked upstream"), func() bool {
		sum := 0
		for _, node := range nodes {
			sum += blockedUpstream(t, node)
		}
		return sum == n
	})
}

// TestEveryBlockingCommand checks that each blocking command blocks, gets an element when one
// comes, and gets Redis's reply when its time-out passes.
func TestEveryBlockingCommand(t *testing.T) {
	t.Parallel()
	bothUpstreams(t, func(t *testing.T, l *leash, nodes []*redistest.Server) {
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
					for i, addr := range []string{plain.Addr, l.addr} {
						servers := []*redistest.Server{plain}
						if i == 1 {
							servers = nodes
						}
						c, feeder := dialAddr(t, addr), dialAddr(t, addr)
						do(t, c, "HELLO", proto)
						do(t, feeder, "DEL", "{k}1", "{k}2", "{k}3", "{k}z", "{k}s", "{k}g")
						do(t, feeder, "XGROUP", "CREATE", "{k}g", "BLOCK", "$", "MKSTREAM")
						replies[i][0] = do(t, c, withTimeout(tc.block, "0.01", "10")...)
						if err := c.Send(redistest.Command(withTimeout(tc.block, "0", "0")...)); err != nil {
							t.Fatal(err)
						}
						awaitBlocked(t, servers, 1)
						do(t, feeder, tc.feed...)
						got, err := c.Read()
						if err != nil {
							t.Fatal(err)
						}
						replies[i][1] = got
						want(t, c, "$2\r\nhi\r\n", "ECHO", "hi")
					}
					if replies[0] != replies[1] {
						t.Fatalf("leash: %q\nredis: %q", replies[1], replies[0])
					}
				})
			}
		}
		eventually(t, "no connection pinned", func() bool { return l.up.Nodes.Pinned() == 0 })
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
	bothUpstreams(t, func(t *testing.T, l *leash, nodes []*redistest.Server) {
		feeder := l.dial(t)
		for _, behind := range []int{0, 400_000} {
			c := l.dial(t)
			raw := redistest.Command("BLPOP", "list", "0") + strings.Repeat(redistest.Command("PING"), behind/14)
			if err := c.Send(raw); err != nil {
				t.Fatal(err)
			}
			awaitBlocked(t, nodes, 1)
			c.Close()
			awaitBlocked(t, nodes, 0)
			want(t, feeder, ":1\r\n", "RPUSH", "list", "e")
			want(t, feeder, "$1\r\ne\r\n", "LPOP", "list")
		}
		eventually(t, "no connection pinned", func() bool { return l.up.Nodes.Pinned() == 0 })
	})
}

// TestThousandsOfBlockedClients checks that thousands of blocked clients delay no other client, and
// that each gets one element.
func TestThousandsOfBlockedClients(t *testing.T) {
	t.Parallel()
	const waiters = 1500
	bothUpstreams(t, func(t *testing.T, l *leash, nodes []*redistest.Server) {
		clients := make([]*redistest.Client, waiters)
		for i := range clients {
			clients[i] = l.dial(t)
			if err := clients[i].Send(redistest.Command("BRPOP", "q", "0")); err != nil {
				t.Fatal(err)
			}
		}
		awaitBlocked(t, nodes, waiters)
		feeder := l.dial(t)
		want(t, feeder, "+OK\r\n", "SET", "other", "v")
		for i := range clients {
			do(t, feeder, "LPUSH", "q", strconv.Itoa(i))
		}
		seen := make(map[string]bool)
		for _, c := range clients {
			got, err := c.Read()
			if err != nil || seen[got] || !strings.HasPrefix(got, "*2\r\n$1\r\nq\r\n") {
				t.Fatalf("%q %v, seen before: %v", got, err, seen[got])
			}
			seen[got] = true
		}
		want(t, feeder, ":0\r\n", "EXISTS", "q")
		eventually(t, "no connection pinned", func() bool { return l.up.Nodes.Pinned() == 0 })
	})
}

// TestClientUnblock checks that CLIENT UNBLOCK with TIMEOUT and ERROR gives Redis's replies.
func TestClientUnblock(t *testing.T) {
	t.Parallel()
	bothUpstreams(t, func(t *testing.T, l *leash, nodes []*redistest.Server) {
		c, other := l.dial(t), l.dial(t)
		id := strings.Trim(do(t, c, "CLIENT", "ID"), ":\r\n")
		want(t, other, ":0\r\n", "CLIENT", "UNBLOCK", id)
		want(t, other, ":0\r\n", "CLIENT", "UNBLOCK", "999999")
		want(t, other, "-ERR value is not an integer or out of range\r\n", "CLIENT", "UNBLOCK", "x")
		want(t, other, "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n", "CLIENT", "UNBLOCK", id, "WHY")
		for _, tc := range []struct{ reason, reply string }{
			{"TIMEOUT", "*-1\r\n"}, {"ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"},
		} {
			if err := c.Send(redistest.Command("BLPOP", "nothing", "0")); err != nil {
				t.Fatal(err)
			}
			awaitBlocked(t, nodes, 1)
			want(t, other, ":1\r\n", "CLIENT", "UNBLOCK", id, tc.reason)
			if got, err := c.Read(); err != nil || got != tc.reply {
				t.Fatalf("%q %v", got, err)
			}
			want(t, c, "+PONG\r\n", "PING")
		}
		eventually(t, "no connection pinned", func() bool { return l.up.Nodes.Pinned() == 0 })
	})
}

// TestClientUnblockOfALockCommand checks that CLIENT UNBLOCK ends a waiting lock command, in both
// protocols. The commands behind it then run.
func TestClientUnblockOfALockCommand(t *testing.T) {
	t.Parallel()
	bothUpstreams(t, func(t *testing.T, l *leash, _ []*redistest.Server) {
		holder, c, other := l.dial(t), l.dial(t), l.dial(t)
		token(t, holder, "k")
		id := strings.Trim(do(t, c, "CLIENT", "ID"), ":\r\n")
		for _, tc := range []struct{ protocol, reason, reply string }{
			{"2", "TIMEOUT", "$-1\r\n"}, {"2", "ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"},
			{"3", "TIMEOUT", "_\r\n"},
		} {
			do(t, c, "HELLO", tc.protocol)
			if err := c.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0") +
				redistest.Command("PING")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "unblocked", func() bool {
				return do(t, other, "CLIENT", "UNBLOCK", id, tc.reason) == ":1\r\n"
			})
			wantRead(t, c, tc.reply)
			wantRead(t, c, "+PONG\r\n")
			want(t, other, ":0\r\n", "CLIENT", "UNBLOCK", id)
		}
		want(t, holder, ":1\r\n", "LOCK.RELEASE", "k")
		token(t, other, "k")
	})
}

// TestBlockedCommandFollowsItsSlot checks that a blocked command follows its slot. Redis unblocks
// it with MOVED, which the client does not see.
func TestBlockedCommandFollowsItsSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, cluster.Addrs())
	key := redistest.KeyIn(100, "list")
	c, feeder := l.dial(t), l.dial(t)
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
	want(t, feeder, ":1\r\n", "RPUSH", key, "v")
	if got, err := c.Read(); err != nil || !strings.HasSuffix(got, "$1\r\nv\r\n") {
		t.Fatalf("%q %v", got, err)
	}
}

// TestWaitCountsTheSessionsOwnWrites checks that WAIT returns 0 when the replica of the node that
// the session wrote to is stopped, even if other replicas answer.
func TestWaitCountsTheSessionsOwnWrites(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1, NodeTimeout: 30 * time.Second})
	l := startLeash(t, cluster.Addrs())
	c := l.dial(t)
	for slot := range 3 {
		want(t, c, "+OK\r\n", "SET", redistest.KeyIn(slot*6000, "k"), "v")
	}
	want(t, c, ":1\r\n", "WAIT", "1", "5000")
	replica := cluster.ReplicaOf(0)
	if err := replica.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replica.Resume() }()
	want(t, c, "+OK\r\n", "SET", redistest.KeyIn(12000, "k"), "v")
	want(t, c, "+OK\r\n", "SET", redistest.KeyIn(0, "k"), "w")
	want(t, c, ":0\r\n", "WAIT", "1", "200")
	other := l.dial(t)
	want(t, other, "+OK\r\n", "SET", redistest.KeyIn(12000, "k"), "v")
	want(t, other, ":1\r\n", "WAIT", "1", "5000")
	eventually(t, "no connection pinned", func() bool { return l.up.Nodes.Pinned() == 0 })
}

// TestStopDoesNotWaitForBlockedCommands checks that a stop does not wait for blocked commands,
// because they may never end.
func TestStopDoesNotWaitForBlockedCommands(t *testing.T) {
	redis := redistest.Start(t)
	l := startLeash(t, []string{redis.Addr}, func(o *options) { o.front.DrainTimeout = time.Minute })
	c := l.dial(t)
	if err := c.Send(redistest.Command("BLPOP", "list", "0")); err != nil {
		t.Fatal(err)
	}
	awaitBlocked(t, []*redistest.Server{redis}, 1)
	stopped := make(chan struct{})
	go func() { l.stop(); close(stopped) }()
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
	redis, fault := faulty(t)
	l := startLeash(t, []string{fault.Addr()}, func(o *options) { o.front.DrainTimeout = time.Minute })
	c, idle := l.dial(t), l.dial(t)
	want(t, idle, "+PONG\r\n", "PING")
	held := fault.HoldAfter(faultproxy.Named("BLPOP"))
	if err := c.Send(redistest.Command("BLPOP", "list", "0")); err != nil {
		t.Fatal(err)
	}
	awaitBlocked(t, []*redistest.Server{redis}, 1)
	if err := redis.Client().RPush(t.Context(), "list", "e").Err(); err != nil {
		t.Fatal(err)
	}
	<-held.Triggered()
	go l.stop()
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
	l := startLeash(t, []string{redis.Addr}, func(o *options) { o.front.DrainTimeout = time.Minute })
	const n = 20
	clients := make([]*redistest.Client, n)
	for i := range clients {
		clients[i] = l.dial(t)
		if err := clients[i].Send(redistest.Command("BLPOP", "list", "0")); err != nil {
			t.Fatal(err)
		}
	}
	idle := l.dial(t)
	pusher, err := redis.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer pusher.Close()
	want(t, idle, "+PONG\r\n", "PING")
	awaitBlocked(t, []*redistest.Server{redis}, n)
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	for i := range n / 2 {
		if err := pusher.Send(redistest.Command("RPUSH", "list", strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	go l.stop()
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
	c := startLeash(t, cluster.Addrs()).dial(t)
	key := redistest.KeyIn(1, "k")
	want(t, c, "+OK\r\n", "SET", key, "1")
	want(t, c, ":1\r\n", "WAIT", "1", "5000")
	if err := cluster.Failover(cluster.ReplicaOf(1)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "WAIT is right again", func() bool {
		want(t, c, "+OK\r\n", "SET", key, "2")
		return do(t, c, "WAIT", "1", "1000") == ":1\r\n"
	})
}

// TestSilentRedis checks that commands on pinned connections get an error when Redis is silent for
// the upstream time-out. The session then goes on.
func TestSilentRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := startLeash(t, []string{redis.Addr}, func(o *options) { o.up.UpstreamTimeout = 4 * time.Second })
	blocked, waits, queues, watches, tracks := l.dial(t), l.dial(t), l.dial(t), l.dial(t), l.dial(t)
	if err := blocked.Send(redistest.Command("BLPOP", "list", "0")); err != nil {
		t.Fatal(err)
	}
	want(t, waits, "+OK\r\n", "SET", "k", "v")
	want(t, queues, "+OK\r\n", "MULTI")
	want(t, queues, "+QUEUED\r\n", "INCR", "n")
	want(t, watches, "+OK\r\n", "WATCH", "n")
	do(t, tracks, "HELLO", "3")
	want(t, tracks, "+OK\r\n", "CLIENT", "TRACKING", "ON")
	want(t, tracks, "$1\r\nv\r\n", "GET", "k")
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
	for name, c := range map[string]*redistest.Client{"BLPOP": blocked, "WAIT": waits, "EXEC": queues} {
		if got, err := c.Read(); err != nil || !strings.HasPrefix(got, "-UPSTREAM") {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	wantRead(t, tracks, tracking.InvalidateAll)
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "redis serves again", func() bool { return do(t, waits, "SET", "k", "w") == "+OK\r\n" })
	if got, err := watches.Read(); err != nil || got != "+OK\r\n" && got != "-"+merge.NotSent+"\r\n" {
		t.Errorf("MULTI: %q %v", got, err)
	}
	want(t, watches, "+OK\r\n", "DISCARD")
	want(t, queues, "+PONG\r\n", "PING")
	for _, c := range []*redistest.Client{blocked, waits, queues, watches, tracks} {
		c.Close()
	}
	eventually(t, "no connection pinned", func() bool { return l.up.Nodes.Pinned() == 0 })
	eventually(t, "no client is blocked in Redis", func() bool { return blockedUpstream(t, redis) == 0 })
}
