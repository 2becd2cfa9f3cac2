package release

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/linktest"
	"leash/internal/redistest"
	"leash/lockcmd/hold"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/renewal"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// clusterOf returns a cluster that all tests share, and a client as package upstream makes it.
func clusterOf(t *testing.T) (*redistest.Cluster, *redis.ClusterClient) {
	t.Helper()
	cluster := redistest.SharedCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: cluster.Addrs(), Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { rdb.Close() })
	return cluster, rdb
}

// leash is a Leash whose holds Redis alone knows, and on which nobody waits. It implements
// hold.Service, wait.Tasks and Waiters.
type leash struct{ tasks sync.WaitGroup }

func (*leash) Lost(*hold.Hold, string)                                              {}
func (*leash) Follow([]hold.Change) (r <-chan struct{})                             { return nil }
func (l *leash) Spawn(f func()) bool                                                { l.tasks.Go(f); return true }
func (*leash) Entry(*script.Mode) string                                            { return "" }
func (*leash) Waiting(wait.QueueID) bool                                            { return false }
func (*leash) LeftTurns(wait.QueueID)                                               {}
func (*leash) HandOver(*hold.Hold, script.EndArgs, time.Time) (o Handover, ok bool) { return o, false }

// releaserOf returns the Releaser of a Leash without holds.
func releaserOf(t *testing.T, rdb redis.UniversalClient, name string) *Releaser {
	l := &leash{}
	t.Cleanup(l.tasks.Wait)
	r := &Releaser{Restorer: &restore.Restorer{Redis: script.New(linktest.Open(t, rdb, nil))}, Waiters: l,
		Tasks: l}
	r.Redis.Timeout, r.Redis.Log = 20*time.Second, slog.New(slog.DiscardHandler)
	r.Holds = hold.NewRegistry(hold.Config{
		Leash: name, TTL: time.Minute, Watchdog: renewal.New(r), Service: l, Log: r.Redis.Log,
	})
	return r
}
