package lockcmd

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
)

// logbook is a log that can be read while it is written.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logbook) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// TestR2EvictionIsWarnedOf: of each master that may evict locks, and of no other.
func TestR2EvictionIsWarnedOf(t *testing.T) {
	t.Parallel()
	const warning = "Redis may evict locks"
	server := redistest.Start(t)
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	for name, rdb := range map[string]redis.UniversalClient{
		"single": dialServer(t, server.Addr), "cluster": dialCluster(t, cluster.Addrs()...),
	} {
		log := &logbook{}
		s, err := New(Config{}, rdb, deaf{}, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		s.warnOfEviction(context.Background())
		if n := log.count(warning); n != 0 {
			t.Errorf("%s: %d warnings with noeviction", name, n)
		}
		set := func(ctx context.Context, c *redis.Client) error {
			return c.ConfigSet(ctx, "maxmemory-policy", "volatile-ttl").Err()
		}
		want := 1
		if c, ok := rdb.(*redis.ClusterClient); ok {
			err, want = c.ForEachMaster(context.Background(), set), 3
		} else {
			err = set(context.Background(), rdb.(*redis.Client))
		}
		if err != nil {
			t.Fatal(err)
		}
		stop := live(s)
		t.Cleanup(stop)
		eventually(t, 30*time.Second, "the warnings", func() bool { return log.count(warning) == want })
		stop()
	}
}

// deaf is a Subscriber that hears nothing.
type deaf struct{}

func (deaf) Subscribe(string, bool, bool, func([]byte)) (<-chan struct{}, func()) {
	return make(chan struct{}), func() {}
}
