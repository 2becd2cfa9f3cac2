package locktest

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/embedded"
	"leash/internal/redistest"
)

// DialServer returns a client as package upstream makes it.
func DialServer(t testing.TB, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, PoolSize: 64,
	})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// DialCluster is DialServer for a cluster.
func DialCluster(t testing.TB, addrs ...string) *redis.ClusterClient {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, PoolSize: 64,
	})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// Both runs a test on a single Redis and on a cluster in parallel.
func Both(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	server := redistest.SharedServer(t)
	RunParallel(t, map[string]func(t *testing.T){
		"single":  func(t *testing.T) { test(t, DialServer(t, server.Addr)) },
		"cluster": func(t *testing.T) { test(t, DialCluster(t, redistest.SharedCluster(t).Addrs()...)) },
	})
}

// EveryRedis runs a test on a single Redis, on a cluster and on the embedded Redis. The embedded
// Redis has another Lua: a failed match returns no value instead of nil, and numeric text is not
// formatted as a number.
func EveryRedis(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	server := redistest.SharedServer(t)
	inside, err := embedded.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inside.Close)
	RunParallel(t, map[string]func(t *testing.T){
		"single":   func(t *testing.T) { test(t, DialServer(t, server.Addr)) },
		"cluster":  func(t *testing.T) { test(t, DialCluster(t, redistest.SharedCluster(t).Addrs()...)) },
		"embedded": func(t *testing.T) { test(t, DialServer(t, inside.Addr())) },
	})
}

// RunParallel runs tests in parallel and returns when all have ended. Tests mostly wait.
func RunParallel(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}

// Exists reports whether a key exists.
func Exists(t testing.TB, rdb redis.UniversalClient, key string) bool {
	t.Helper()
	n, err := rdb.Exists(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// LastKey counts the keys of NewKey.
var LastKey atomic.Int64

// NewKey returns a key that no other test uses.
func NewKey() string { return "lock" + strconv.FormatInt(LastKey.Add(1), 10) }
