package upstream_test

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/slots"
)

// TestClusterBehindForwardedPorts checks that Leash uses the addresses and ports that cluster nodes
// announce, as behind NAT. It does so from the start and after a change while it runs.
func TestClusterBehindForwardedPorts(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.2", "::1"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
			leashes := map[string]*proxytest.Leash{"running": proxytest.Start(t, cluster.Addrs())}
			holder := leashes["running"].Dial(t)
			if reply := holder.Reply(t, "LOCK.ACQUIRE", "held"); reply[0] != ':' {
				t.Fatal(reply)
			}
			ways := make([]*forwarder, len(cluster.Nodes))
			for i, n := range cluster.Nodes {
				ways[i] = announceForwarded(t, host, n.Server)
			}
			announced := func() bool {
				for _, n := range cluster.Nodes {
					nodes := redistest.Connect(t, n.Server.Addr).Do("CLUSTER", "NODES")
					for _, way := range ways {
						if !strings.Contains(nodes, " "+host+":"+way.port()+"@") {
							return false
						}
					}
				}
				return true
			}
			proxytest.Eventually(t, "the nodes know each other's addresses", announced)
			if err := cluster.AwaitStable(time.Minute); err != nil {
				t.Fatal(err)
			}
			leashes["fresh"] = proxytest.Start(t, []string{net.JoinHostPort(host, ways[0].port())})
			const key = "moves"
			for _, to := range cluster.Masters() { // one of them has the slot already
				if err := cluster.MoveSlot(int(slots.Of([]byte(key))), to); err != nil {
					t.Fatal(err)
				}
				for name, l := range leashes {
					c := l.Dial(t)
					c.Want(t, "+OK\r\n", "SET", key, name)
					if reply := c.Reply(t, "LOCK.ACQUIRE", "{"+key+"}"+name); reply[0] != ':' {
						t.Errorf("%s: %q", name, reply)
					}
					c.Want(t, ":1\r\n", "LOCK.RELEASE", "{"+key+"}"+name)
				}
			}
			holder.Want(t, ":1\r\n", "LOCK.RELEASE", "held")
			for name, l := range leashes {
				before := make([]int64, len(ways))
				for i, way := range ways {
					before[i] = way.bytes.Load()
				}
				c := l.Dial(t)
				for i := range 50 {
					c.Want(t, "+OK\r\n", "SET", fmt.Sprint(name, i), strings.Repeat("x", 1000))
				}
				for i, way := range ways {
					if n := way.bytes.Load() - before[i]; n < 1000 {
						t.Errorf("%s: %d bytes came by the announced address of node %d", name, n, i)
					}
				}
				if strings.Contains(l.Logs.String(), "redis: nil") {
					t.Errorf("%s: the log has go-redis's own words:\n%s", name, l.Logs.Tail(20))
				}
			}
		})
	}
}

// announceForwarded makes a node announce ports of host that are forwarded to the node's own ports.
func announceForwarded(t *testing.T, host string, s *redistest.Server) *forwarder {
	t.Helper()
	own, port, _ := net.SplitHostPort(s.Addr)
	number, _ := strconv.Atoi(port)
	data := forward(t, host, s.Addr)
	bus := forward(t, host, net.JoinHostPort(own, strconv.Itoa(number+10000)))
	direct := redistest.Connect(t, s.Addr)
	direct.Want("+OK\r\n", "CONFIG", "SET", "cluster-announce-ip", host,
		"cluster-announce-port", data.port(), "cluster-announce-bus-port", bus.port())
	return data
}

// forwarder forwards TCP connections, as a router does.
type forwarder struct {
	ln     net.Listener
	target string
	bytes  atomic.Int64 // that clients have sent
	all    sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	closed bool // close has closed conns, and no more may come
}

func forward(t *testing.T, host, target string) *forwarder {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{ln: ln, target: target}
	f.all.Go(f.accept)
	t.Cleanup(f.close)
	return f
}

func (f *forwarder) port() string {
	_, port, _ := net.SplitHostPort(f.ln.Addr().String())
	return port
}

func (f *forwarder) close() {
	f.ln.Close()
	f.mu.Lock()
	f.closed = true
	for _, c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.all.Wait()
}

func (f *forwarder) accept() {
	for {
		client, err := f.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", f.target)
		if err != nil {
			client.Close()
			continue
		}
		f.mu.Lock()
		closed := f.closed
		if !closed {
			f.conns = append(f.conns, client, server)
		}
		f.mu.Unlock()
		if closed { // while it was dialing
			client.Close()
			server.Close()
			return
		}
		f.all.Go(func() { f.pass(server, io.TeeReader(client, f)); client.Close() })
		f.all.Go(func() { f.pass(client, server); server.Close() })
	}
}

func (f *forwarder) pass(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from)
	to.Close()
}

// Write implements io.Writer. It counts the bytes.
func (f *forwarder) Write(p []byte) (int, error) {
	f.bytes.Add(int64(len(p)))
	return len(p), nil
}
