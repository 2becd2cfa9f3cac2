package upstream

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestConnectThoughOneNodeIsSilent: a node of a cluster that answers nothing costs a start one try, and no more, whenever it is asked.
func TestConnectThoughOneNodeIsSilent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 3, FaultProxy: true})
	silent := cluster.Masters()[0].Proxy
	silent.Freeze()
	defer silent.Thaw()
	var tries sync.WaitGroup
	for range 30 { // each asks in an order of its own
		tries.Go(func() {
			u, err := New(Config{Addrs: cluster.Addrs(), UpstreamTimeout: 3 * askTimeout}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			began := time.Now()
			if err := u.Connect(t.Context()); err != nil {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			u.CloseClients()
		})
	}
	tries.Wait()
}
