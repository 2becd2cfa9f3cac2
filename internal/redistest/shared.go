package redistest

import (
	"context"
	"flag"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// The shared servers are used by many tests of a package at once. Each test uses its own keys.
var shared struct {
	once, clusterOnce sync.Once
	server            *Server
	cluster           *Cluster
}

// atOnce is how many tests Main runs at the same time, whatever -parallel says. They wait nearly
// all the time.
const atOnce = 16

// noLog drops go-redis's own log.
type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// Main is the TestMain of a package whose tests use the shared servers. It closes them at the end,
// and exits.
func Main(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	redis.SetLogger(noLog{})
	code := m.Run()
	if shared.server != nil {
		shared.server.Close()
	}
	if shared.cluster != nil {
		shared.cluster.Close()
	}
	os.Exit(code)
}

// SharedServer returns the Redis that the tests of a package share. The first call starts it. The
// package's TestMain must be Main.
func SharedServer(t testing.TB) *Server {
	t.Helper()
	var err error
	shared.once.Do(func() { shared.server, err = Launch(Options{}) })
	if err != nil || shared.server == nil {
		t.Fatalf("redis-server: %v", err)
	}
	return shared.server
}

// SharedCluster is SharedServer for a cluster.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	NeedsCluster(t)
	var err error
	shared.clusterOnce.Do(func() { shared.cluster, err = LaunchCluster(ClusterOptions{}) })
	if err != nil || shared.cluster == nil {
		t.Fatalf("cluster: %v", err)
	}
	return shared.cluster
}
