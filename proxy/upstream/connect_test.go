package upstream

import (
	"bytes"
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
	}
}

// TestWaitIsLoggedOnceForEachReason checks that a reason is logged again only if it is another one.
// A time or a port of Leash's own socket makes no other reason.
func TestWaitIsLoggedOnceForEachReason(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := &waitingLog{up: &Upstream{log: slog.New(slog.NewTextHandler(&log, nil))}}
	for _, reason := range []string{
		"x509: certificate has expired: current time 2026-11-28T04:43:58Z is after 2021-01-01T00:00:00Z",
		"x509: certificate has expired: current time 2026-11-28T04:44:00Z is after 2021-01-01T00:00:00Z",
		"read tcp 127.0.0.1:58758->127.0.0.1:7000: connection reset by peer",
		"read tcp 127.0.0.1:9804->127.0.0.1:7000: connection reset by peer",
		"connection refused",
		"connection refused",
	} {
		w.note(reason)
	}
	if n := strings.Count(log.String(), "waiting for redis"); n != 3 {
		t.Errorf("logged %d times, want 3:\n%s", n, &log)
	}
}

// TestIsBefore checks which versions are older than 7.2.
func TestIsBefore(t *testing.T) {
	for version, want := range map[string]bool{
		"7.0.15": true, "6.2.0": true, "7.2.4": false, "8.0.2": false, "10.0.0": false, "odd": false, "": false,
	} {
		if got := (&Upstream{version: version}).IsBefore(7, 2); got != want {
			t.Errorf("%q: got %v", version, got)
		}
	}
}
