package upstream

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/dial"
)

// TestConnectWithOneSilentNode checks that a cluster node that does not answer costs a start
// one attempt at most.
func TestConnectWithOneSilentNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 3, FaultProxy: true})
	silent := cluster.Masters()[0].Proxy
	silent.Freeze()
	defer silent.Thaw()
	var tries sync.WaitGroup
	for range 30 { // each asks in an order of its own
		tries.Go(func() {
			u, err := New(Config{Addrs: cluster.Addrs(), Config: dial.Config{UpstreamTimeout: 3 * dial.AskTimeout}},
				slog.New(slog.DiscardHandler))
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

// TestConnectGetsNullReply checks that the error for a null reply is not go-redis's "redis: nil".
func TestConnectGetsNullReply(t *testing.T) {
	for _, null := range []string{"$-1\r\n", "*-1\r\n"} {
		u, err := New(Config{Addrs: []string{redistest.StartFake(t, func([]string) string { return null }).Addr},
			Config: dial.Config{UpstreamTimeout: dial.AskTimeout}}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Connect(t.Context()); !errors.Is(err, dial.ErrNull) || strings.Contains(err.Error(), "redis: nil") {
			t.Errorf("%q: %v", null, err)
		}
		u.CloseClients()
	}
}
