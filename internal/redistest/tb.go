package redistest

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// logShown is how many lines of a server's log a failed test shows.
const logShown = 20

// Start launches a server for a test and closes it when the test ends. The test fails if that is
// not possible. If the test has failed, the end of the server's log is shown.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s, err := Launch(Options{Args: args})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		showLog(tb, s)
		if err := s.Close(); err != nil {
			tb.Errorf("close server at %s: %v", s.Addr, err)
		}
	})
	return s
}

// FreeAddr returns an address of 127.0.0.1 with a free port. No other test takes the port until the
// test ends.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	p, err := claimPort()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.release)
	return p.addr()
}

// NeedsCluster skips a test in the quick run (go test -short), which starts single servers only.
func NeedsCluster(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("no cluster in the quick run")
	}
}

// TakesLong skips a slow test in the quick run.
func TakesLong(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("takes too long for the quick run")
	}
}

// StartCluster launches a cluster for a test and closes it when the test ends. The test fails if
// that is not possible. If the test has failed, the end of each node's log is shown. At most one
// ClusterOptions may be given. Without options, the cluster has three masters with a replica each.
func StartCluster(tb testing.TB, opts ...ClusterOptions) *Cluster {
	tb.Helper()
	NeedsCluster(tb)
	opt := ClusterOptions{Replicas: 1}
	if len(opts) > 0 {
		opt = opts[0]
	}
	c, err := LaunchCluster(opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for _, n := range c.Nodes {
			showLog(tb, n.Server)
		}
		if err := c.Close(); err != nil {
			tb.Errorf("close cluster: %v", err)
		}
	})
	return c
}

func showLog(tb testing.TB, s *Server) {
	if tb.Failed() {
		tb.Logf("redis-server at %s logged last:\n%s", s.Addr, s.LogTail(logShown))
	}
}

// TestClient is a Client for a test. An error of the connection fails the test. As with Fatal, only
// the test's own goroutine may call its methods.
type TestClient struct {
	*Client
	tb testing.TB
}

// Connect dials a RESP server for a test and closes the connection at its end.
func Connect(tb testing.TB, addr string) *TestClient {
	tb.Helper()
	c, err := Dial(addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return &TestClient{Client: c, tb: tb}
}

// Send writes raw bytes.
func (c *TestClient) Send(raw string) {
	c.tb.Helper()
	if err := c.Client.Send(raw); err != nil {
		c.tb.Fatalf("send %q: %v", shorten(raw), err)
	}
}

// Read returns the next whole reply as raw bytes.
func (c *TestClient) Read() string {
	c.tb.Helper()
	got, err := c.Client.Read()
	if err != nil {
		c.tb.Fatalf("read: got %q, then %v", shorten(got), err)
	}
	return got
}

// Do sends one command and returns the next whole reply as raw bytes.
func (c *TestClient) Do(args ...string) string {
	c.tb.Helper()
	c.Send(Command(args...))
	return c.Read()
}

// Want sends one command and checks that the next whole reply is exactly want.
func (c *TestClient) Want(want string, args ...string) {
	c.tb.Helper()
	if got := c.Do(args...); got != want {
		c.tb.Fatalf("%q: got %q, want %q", args, shorten(got), shorten(want))
	}
}

// WantRead checks that the next whole reply is exactly want.
func (c *TestClient) WantRead(want string) {
	c.tb.Helper()
	if got := c.Read(); got != want {
		c.tb.Fatalf("got %q, want %q", shorten(got), shorten(want))
	}
}

// WantClosed checks that the server ends the connection, by FIN or RST, and sends nothing before.
func (c *TestClient) WantClosed() {
	c.tb.Helper()
	got, err := c.Client.Read()
	if got != "" || !(errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		c.tb.Fatalf("got %q, %v; want the connection closed", shorten(got), err)
	}
}

// WantSilence checks that nothing comes for d.
func (c *TestClient) WantSilence(d time.Duration) {
	c.tb.Helper()
	before := c.Timeout
	c.Timeout = d
	defer func() { c.Timeout = before }()
	if got, err := c.Client.Read(); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
		c.tb.Fatalf("got %q, %v; want silence", shorten(got), err)
	}
}

// shorten keeps a message readable when a value is large.
func shorten(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// StartSentinel launches a group for a test and closes it when the test ends. The test fails if
// that is not possible. At most one SentinelOptions may be given.
func StartSentinel(tb testing.TB, opts ...SentinelOptions) *SentinelGroup {
	tb.Helper()
	NeedsCluster(tb)
	var opt SentinelOptions
	if len(opts) > 0 {
		opt = opts[0]
	}
	g, err := LaunchSentinel(opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for _, s := range append(g.Servers, g.Sentinels...) {
			showLog(tb, s)
		}
		if err := g.Close(); err != nil {
			tb.Errorf("close sentinel group: %v", err)
		}
	})
	return g
}
