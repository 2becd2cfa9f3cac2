package lockcmd_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/linktest"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
)

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// TestR2EvictionIsWarnedOf: Leash logs a warning for each master that may evict locks, and for no
// other.
func TestR2EvictionIsWarnedOf(t *testing.T) {
	t.Parallel()
	const warning = "Redis may evict locks"
	server := redistest.Start(t)
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	for name, rdb := range map[string]redis.UniversalClient{
		"single": locktest.DialServer(t, server.Addr), "cluster": locktest.DialCluster(t, cluster.Addrs()...),
	} {
		log := &logBuffer{}
		s := lockcmd.New(lockcmd.Config{}, linktest.Open(t, rdb, nil), locktest.SilentSubscriber{},
			slog.New(slog.NewTextHandler(log, nil)))
		s.WarnOfEviction(context.Background())
		if n := log.count(warning); n != 0 {
			t.Errorf("%s: %d warnings with noeviction", name, n)
		}
		set := func(ctx context.Context, c *redis.Client) error {
			return c.ConfigSet(ctx, "maxmemory-policy", "volatile-ttl").Err()
		}
		var err error
		want := 1
		if c, ok := rdb.(*redis.ClusterClient); ok {
			err, want = c.ForEachMaster(context.Background(), set), 3
		} else {
			err = set(context.Background(), rdb.(*redis.Client))
		}
		if err != nil {
			t.Fatal(err)
		}
		stop := locktest.RunService(s)
		t.Cleanup(stop)
		locktest.Eventually(t, 30*time.Second, "the warnings", func() bool { return log.count(warning) == want })
		stop()
	}
}

// TestR2EvictionIsWarnedOfBesideASilentMaster: A master that does not answer does not keep Leash
// from asking the others.
func TestR2EvictionIsWarnedOfBesideASilentMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	for _, n := range cluster.Nodes {
		redistest.Connect(t, n.Addr).Want("+OK\r\n", "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	}
	rdb := locktest.DialCluster(t, cluster.Addrs()...)
	silent := cluster.MasterOf(0)
	if err := silent.Pause(); err != nil {
		t.Fatal(err)
	}
	const tries = 5 // on a busy machine, the others may be silent for seconds too
	for try := range tries {
		log := &logBuffer{}
		// new links do not know yet that the master is silent
		s := lockcmd.New(lockcmd.Config{}, linktest.Open(t, rdb, nil), locktest.SilentSubscriber{},
			slog.New(slog.NewTextHandler(log, nil)))
		s.WarnOfEviction(t.Context())
		switch n := log.count("Redis may evict locks"); {
		case n == len(cluster.Nodes)-1:
			return
		case try == tries-1:
			t.Errorf("%d warnings beside a silent master, want %d", n, len(cluster.Nodes)-1)
		}
	}
}
