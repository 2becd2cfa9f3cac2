package failover

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/linktest"
	"leash/lockcmd/script"
	"leash/renewal"
)

// soon is an upper limit for operations that nothing delays, on a busy machine.
const soon = 20 * time.Second

// dial returns a client as package upstream makes it.
func dial(t testing.TB, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true, DialTimeout: 5 * time.Second,
	})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func dialCluster(t testing.TB, addrs []string) *redis.ClusterClient {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true, DialTimeout: 5 * time.Second,
	})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// mastersOf returns what a Leash knows of the masters of rdb, before the first probe.
func mastersOf(t testing.TB, rdb redis.UniversalClient, grace time.Duration, log *logBuffer) *Masters {
	cfg := Config{
		Grace: grace, Lease: time.Minute, Redis: script.New(linktest.Open(t, rdb, nil)),
		Watchdog: renewal.New(nil),
		Log:      slog.New(slog.NewTextHandler(log, nil)),
	}
	return New(cfg)
}

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

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", soon, what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// infoField returns a field of INFO.
func infoField(info, name string) string {
	_, rest, _ := strings.Cut(info, "\r\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}
