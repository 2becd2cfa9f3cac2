package upstream

import (
	"leash/internal/redistest"
	"log/slog"
	"strings"
	"testing"
)

func TestCompleteAddr(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:7001":  "127.0.0.1:7001",
		":7001":           "10.0.0.1:7001",
		"?:7001":          "10.0.0.1:7001",
		"fd00::1:7001":    "[fd00::1]:7001",
		"[fd00::1]:7001":  "[fd00::1]:7001",
		"redis.host:7001": "redis.host:7001",
	} {
		if got := completeAddr(addr, "10.0.0.1:7000"); got != want {
			t.Errorf("%q: got %q, want %q", addr, got, want)
		}
	}
}

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

func TestParseNodes(t *testing.T) {
	reply := "07c3 127.0.0.1:30004@31004,hostname4 slave e7d1 0 1426238317239 4 connected\n" +
		"67ed 127.0.0.1:30002@31002,,shard-id=1 master - 0 1426238316232 2 connected 5461-10922\n" +
		"292f :0@0 master,noaddr - 0 0 3 disconnected\n" +
		"e7d1 :30001@31001 myself,master - 0 0 1 connected 0-5460\n"
	got := strings.Join(parseNodes(reply, "10.0.0.1:30001", false), " ")
	if want := "127.0.0.1:30004 hostname4:30004 127.0.0.1:30002 10.0.0.1:30001"; got != want {
		t.Errorf("got %q, want %q", got, want)
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
	if err := u.probeAuth(t.Context(), f.Addr); err != nil || !u.AuthRequired() {
		t.Fatalf("%v, required %v", err, u.AuthRequired())
	}
	full = true
	if err := u.probeAuth(t.Context(), f.Addr); err == nil || !u.AuthRequired() {
		t.Errorf("%v, required %v", err, u.AuthRequired())
	}
}
