package upstream_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/upstream"
)

func readFrom(where string) func(*proxytest.Options) {
	return func(o *proxytest.Options) { o.Upstream.ReadFrom = where }
}

// calls returns how often a server has run a command.
func calls(t *testing.T, s *redistest.Server, command string) (n int) {
	t.Helper()
	info, err := s.Client().Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Sscanf(proxytest.InfoLine("\r\n"+info, "cmdstat_"+command), "calls=%d,", &n)
	return n
}

// served returns how often the masters and the replicas have run a command. The roles are those at
// the start of the cluster.
func served(t *testing.T, c *redistest.Cluster, command string) (masters, replicas int) {
	t.Helper()
	for i, n := range c.Nodes {
		if i < len(c.Nodes)/2 {
			masters += calls(t, n.Server, command)
		} else {
			replicas += calls(t, n.Server, command)
		}
	}
	return masters, replicas
}

// replicated waits until the replicas have all writes of the masters.
func replicated(t *testing.T, c *redistest.Cluster) {
	t.Helper()
	for _, n := range c.Nodes[:len(c.Nodes)/2] {
		if err := n.Client().Set(t.Context(), redistest.KeyIn(firstSlot(t, c, n), "mark"), "1", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	proxytest.Eventually(t, "the replicas have caught up", func() bool {
		for i, n := range c.Nodes[:len(c.Nodes)/2] {
			replica := c.Nodes[len(c.Nodes)/2+i]
			if n.Client().DBSize(t.Context()).Val() != replica.Client().DBSize(t.Context()).Val() {
				return false
			}
		}
		return true
	})
}

func firstSlot(t *testing.T, c *redistest.Cluster, n *redistest.Node) int {
	t.Helper()
	for slot := 0; slot < redistest.SlotCount; slot += 100 {
		if c.MasterOf(slot) == n {
			return slot
		}
	}
	t.Fatal("a master without slots")
	return 0
}

// TestReadFromReplica checks that reads go to replicas and everything else goes to masters.
func TestReadFromReplica(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	l := proxytest.Start(t, c.Addrs(), readFrom(upstream.ReadReplica))
	client := l.Dial(t)
	for i := range 50 {
		client.Want(t, "+OK\r\n", "SET", fmt.Sprint("k", i), fmt.Sprint(i))
	}
	replicated(t, c)
	for i := range 50 {
		client.Want(t, fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(i)), i), "GET", fmt.Sprint("k", i))
	}
	if m, r := served(t, c, "get"); m != 0 || r != 50 {
		t.Errorf("GET ran %d times on masters, %d on replicas", m, r)
	}
	client.Want(t, "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n", "MGET", "k1", "k2", "k3")
	if m, r := served(t, c, "mget"); m != 0 || r == 0 {
		t.Errorf("MGET ran %d times on masters, %d on replicas", m, r)
	}
	client.Want(t, "$2\r\nro\r\n", "EVAL_RO", "return 'ro'", "1", "k1")
	if m, r := served(t, c, "eval_ro"); m != 0 || r != 1 {
		t.Errorf("EVAL_RO ran %d times on masters, %d on replicas", m, r)
	}
	// not EVAL, which Leash itself sends to look at its own rights
	hash := client.Reply(t, "SCRIPT", "LOAD", "return 'rw'")[len("$40\r\n"):][:40]
	client.Want(t, "$2\r\nrw\r\n", "EVALSHA", hash, "1", "k1")
	if m, r := served(t, c, "evalsha"); m != 1 || r != 0 {
		t.Errorf("EVALSHA ran %d times on masters, %d on replicas", m, r)
	}

	// Not in a transaction, not while keys are watched, and not with a lock.
	client.Want(t, "+OK\r\n", "WATCH", "k1")
	client.Want(t, ":1\r\n", "STRLEN", "k1")
	client.Want(t, "+OK\r\n", "MULTI")
	client.Want(t, "+QUEUED\r\n", "STRLEN", "k1")
	client.Want(t, "*1\r\n:1\r\n", "EXEC")
	if got := client.Reply(t, "LOCK.ACQUIRE", "lock"); got[0] != ':' {
		t.Fatalf("got %q, want a token", got)
	}
	client.Want(t, ":1\r\n", "STRLEN", "k1")
	if m, r := served(t, c, "strlen"); m != 3 || r != 0 {
		t.Errorf("STRLEN ran %d times on masters, %d on replicas", m, r)
	}
	client.Want(t, ":1\r\n", "LOCK.RELEASE", "lock")
	client.Want(t, ":1\r\n", "STRLEN", "k1")
	if _, r := served(t, c, "strlen"); r != 1 {
		t.Errorf("STRLEN ran %d times on replicas after the release", r)
	}
}

// TestReadFromReplicaThatWasBusy checks that reads go to a replica that was busy when its
// connection was made. A busy Redis refuses READONLY, and the connection must not redirect every
// read from then on.
func TestReadFromReplicaThatWasBusy(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1,
		Args: []string{"--busy-reply-threshold", "50"}})
	replica := c.Nodes[3]
	script := redistest.Connect(t, replica.Addr)
	ended := make(chan string, 1)
	go func() { ended <- script.Do("EVAL_RO", "while true do end", "0") }()
	direct := redistest.Connect(t, replica.Addr)
	proxytest.Eventually(t, "the replica is busy", func() bool { return strings.HasPrefix(direct.Do("READONLY"), "-BUSY ") })
	l := proxytest.Start(t, c.Addrs(), readFrom(upstream.ReadReplica))
	client := l.Dial(t)
	key := redistest.KeyIn(firstSlot(t, c, c.Nodes[0]), "k")
	client.Want(t, "+OK\r\n", "SET", key, "v")
	client.Want(t, "$1\r\nv\r\n", "GET", key)
	direct.Want("+OK\r\n", "SCRIPT", "KILL")
	<-ended
	proxytest.Eventually(t, "it is read from", func() bool {
		client.Want(t, "$1\r\nv\r\n", "GET", key)
		return calls(t, replica.Server, "get") > 0
	})
}

// TestReadFromReplicaInOrder checks that a read in a pipeline sees the writes before it, however
// far the replicas lag.
func TestReadFromReplicaInOrder(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	l := proxytest.Start(t, c.Addrs(), readFrom(upstream.ReadReplica))
	var running sync.WaitGroup
	for i := range 8 {
		client := l.Dial(t)
		running.Go(func() {
			last := 0
			for round := range 100 {
				var raw, expected strings.Builder
				for j := range 1 + round%7 {
					key := fmt.Sprintf("k%d-%d", i, j%3)
					if (round+j)%3 == 0 {
						raw.WriteString(redistest.Command("STRLEN", key))
					}
					last++
					raw.WriteString(redistest.Command("SET", key, fmt.Sprint(last)))
					raw.WriteString(redistest.Command("GET", key))
					fmt.Fprintf(&expected, "$%d\r\n%d\r\n", len(fmt.Sprint(last)), last)
				}
				if err := client.Send(raw.String()); err != nil {
					t.Error(err)
					return
				}
				var got strings.Builder
				for range strings.Count(raw.String(), "*") {
					reply, err := client.Read()
					if err != nil {
						t.Error(err)
						return
					}
					if reply[0] == '$' {
						got.WriteString(reply)
					}
				}
				if got.String() != expected.String() {
					t.Errorf("got %q, want %q", got.String(), expected.String())
					return
				}
			}
		})
	}
	running.Wait()
	if _, r := served(t, c, "strlen"); r == 0 {
		t.Error("no read went to a replica")
	}
}

// TestReadFromReplicaFallsBack checks that reads are answered when a replica is gone, silent or
// without its master.
func TestReadFromReplicaFallsBack(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t, redistest.SentinelOptions{
		Replicas: 1, DownAfter: redistest.NoFailover, Args: []string{"--replica-serve-stale-data", "no"},
	})
	master, replica := g.Servers[0], g.Servers[1]
	l := proxytest.Start(t, []string{master.Addr}, readFrom(upstream.ReadReplica))
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SELECT", "3")
	client.Want(t, "+OK\r\n", "SET", "k", "v")
	proxytest.Eventually(t, "a read goes to the replica", func() bool {
		return client.Reply(t, "GET", "k") == "$1\r\nv\r\n" && calls(t, replica, "get") > 0
	})

	// Without its master, the replica answers MASTERDOWN.
	if err := replica.Client().ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	before := calls(t, master, "get")
	client.Want(t, "$1\r\nv\r\n", "GET", "k")
	if calls(t, master, "get") == before {
		t.Error("the master was not asked")
	}

	// The replica is silent, for less than the time after which it is suspected.
	host, port, _ := strings.Cut(master.Addr, ":")
	if err := replica.Client().ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	before = calls(t, replica, "get")
	proxytest.Eventually(t, "a read goes to the replica again", func() bool {
		return client.Reply(t, "GET", "k") == "$1\r\nv\r\n" && calls(t, replica, "get") > before
	})
	if err := replica.Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	client.Want(t, "$1\r\nv\r\n", "GET", "k")
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("a read took %v while the replica was silent", took)
	}

	// The replica is gone.
	if err := replica.Resume(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "the replica serves again", func() bool {
		n := calls(t, replica, "get")
		return client.Reply(t, "GET", "k") == "$1\r\nv\r\n" && calls(t, replica, "get") > n
	})
	if err := replica.Kill(); err != nil {
		t.Fatal(err)
	}
	waited := 0
	for range 100 {
		began := time.Now()
		client.Want(t, "$1\r\nv\r\n", "GET", "k")
		if time.Since(began) > time.Second {
			waited++
		}
	}
	if waited > 3 {
		t.Errorf("%d of 100 reads waited for the replica that is gone", waited)
	}
}

// TestReadFromNearest checks that reads go to the node that answers soonest.
func TestReadFromNearest(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t, redistest.SentinelOptions{DownAfter: redistest.NoFailover})
	l := proxytest.StartBehindSentinels(t, g, readFrom(upstream.ReadNearest))
	l.Dial(t).Want(t, "+OK\r\n", "SET", "k", "v")
	proxytest.Eventually(t, "all nodes are read from", func() bool {
		for range 20 {
			client := l.Dial(t)
			client.Reply(t, "STRLEN", "k")
			client.Close()
		}
		for _, s := range g.Servers {
			if calls(t, s, "strlen") == 0 {
				return false
			}
		}
		return true
	})
}

// TestReadFromReplicaWhileSlotsMove checks that a read finds a key whose slot has moved, although
// no master is asked.
func TestReadFromReplicaWhileSlotsMove(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	l := proxytest.Start(t, c.Addrs(), readFrom(upstream.ReadReplica))
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "k", "v")
	replicated(t, c)
	client.Want(t, "$1\r\nv\r\n", "GET", "k")
	slot := redistest.Slot("k")
	to := c.MasterOf((slot + redistest.SlotCount/2) % redistest.SlotCount)
	move, err := c.BeginMove(slot, to)
	if err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it is seen", l.Upstream.SlotsMoving)
	if err := move.MoveKey("k"); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		client.Want(t, "$1\r\nv\r\n", "GET", "k")
	}
}
