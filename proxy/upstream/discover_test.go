package upstream

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"leash/internal/redistest"
)

func TestModeOf(t *testing.T) {
	for info, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n":                                   "cluster",
		"redis_version:7.0.15\r\nredis_mode:standalone\r\n# Cluster\r\ncluster_enabled:0\r\n":          "standalone",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:cluster\r\n": "cluster",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:sentinel\r\n":                        "sentinel",
		"redis_version:7.0.7\r\n# Cluster\r\ncluster_enabled:1\r\n":                                    "cluster",
		"redis_version:6.2.0\r\n": "",
	} {
		if got := modeOf(info); got != want {
			t.Errorf("%q: got %q, want %q", info, got, want)
		}
	}
}

// TestFullRedisKeepsAuthRequired checks that an error that comes before Redis checks the user
// does not change whether authentication is required.
func TestFullRedisKeepsAuthRequired(t *testing.T) {
	full := false
	f := redistest.StartFake(t, func([]string) string { return "+OK\r\n" })
	f.Ping = func() string {
		if full {
			return "-ERR max number of clients reached\r\n"
		}
		return "-NOAUTH Authentication required.\r\n"
	}
	u, err := New(Config{Addrs: []string{f.Addr}, Mode: "standalone"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.probeAuth(t.Context(), f.Addr); err != nil || !u.Dialer.AuthRequired() {
		t.Fatalf("%v, required %v", err, u.Dialer.AuthRequired())
	}
	full = true
	if err := u.probeAuth(t.Context(), f.Addr); err == nil || !u.Dialer.AuthRequired() {
		t.Errorf("%v, required %v", err, u.Dialer.AuthRequired())
	}
}

// TestNewDemandForAuthIsLogged checks that the log says so when Redis begins to require a login,
// and not when it always has, even if nodes are known before Leash asks.
func TestNewDemandForAuthIsLogged(t *testing.T) {
	const noauth = "-NOAUTH Authentication required.\r\n"
	var ping atomic.Value // the fake may still read it for a connection that has ended
	ping.Store(noauth)
	f := redistest.StartFake(t, func([]string) string { return "+OK\r\n" })
	f.Ping = func() string { return ping.Load().(string) }
	var log bytes.Buffer
	u, err := New(Config{Addrs: []string{f.Addr}, Mode: "standalone"}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	u.Nodes.Node(f.Addr)
	u.Nodes.End() // ends its goroutines; the node stays known
	for _, step := range []struct {
		ping string
		logs int
	}{{noauth, 0}, {"+PONG\r\n", 0}, {noauth, 1}, {noauth, 1}} {
		ping.Store(step.ping)
		if err := u.probeAuth(t.Context(), f.Addr); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "now requires clients to authenticate"); n != step.logs {
			t.Errorf("PING answers %q: logged %d times, want %d", step.ping, n, step.logs)
		}
	}
}
