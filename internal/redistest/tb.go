package redistest

import (
	"testing"
)

// Start launches a server for a test, which fails if that cannot be done, and closes it at the test's end. If
// the test has failed, the end of the server's log is shown.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s, err := Launch(Options{Args: args})
	if err != nil {
		tb.Fatal(err)
	}
	closeAfter(tb, s)
	return s
}

// closeAfter registers the end of a server with a test.
func closeAfter(tb testing.TB, s *Server) {
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("redis-server at %s logged last:\n%s", s.Addr, s.LogTail(20))
		}
		if err := s.Close(); err != nil {
			tb.Errorf("close server at %s: %v", s.Addr, err)
		}
	})
}

// StartCluster launches a cluster for a test, which fails if that cannot be done, and closes it at the test's
// end. If the test has failed, the end of each node's log is shown. At most one ClusterOptions may be given;
// without, it is three masters with a replica each.
func StartCluster(tb testing.TB, opts ...ClusterOptions) *Cluster {
	tb.Helper()
	opt := ClusterOptions{Replicas: 1}
	if len(opts) > 0 {
		opt = opts[0]
	}
	c, err := LaunchCluster(opt)
	if err != nil {
		tb.Fatal(err)
	}
	for _, n := range c.Nodes {
		closeAfter(tb, n.Server)
	}
	return c
}
