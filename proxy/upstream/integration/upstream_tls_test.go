package upstream_test

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leash/internal/certtest"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/upstream"
)

// freePort returns a port that no other test takes.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(redistest.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// tlsArgs are the arguments of a Redis that speaks TLS on a port, beside its plain port for the
// test.
func tlsArgs(ca *certtest.Authority, pair certtest.Pair, port string) []string {
	return []string{"--tls-port", port, "--tls-cert-file", pair.Cert, "--tls-key-file", pair.Key,
		"--tls-ca-cert-file", ca.CA}
}

// withTLS makes Leash connect to Redis with TLS.
func withTLS(t *testing.T, ca *certtest.Authority) func(*proxytest.Options) {
	t.Helper()
	config := &tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Issue(t, nil, "client").Load(t)}}
	return func(o *proxytest.Options) { o.Upstream.TLS = func() *tls.Config { return config } }
}

// useEverything makes a Leash open connections of every kind.
func useEverything(t *testing.T, l *proxytest.Leash) {
	t.Helper()
	c, blocked, subscriber := l.Dial(t), l.Dial(t), l.Dial(t)
	value := strings.Repeat("v", 1<<20)
	c.Want(t, "+OK\r\n", "SET", "k", value)
	c.Want(t, "$1048576\r\n"+value+"\r\n", "GET", "k")
	number := proxytest.Token(t, c, "lock")
	waiter := l.Dial(t)
	if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "lock", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "a client waits", func() bool { return l.Locks.Stats().Waiters == 1 })
	c.Want(t, ":1\r\n", "LOCK.RELEASE", "lock", "TOKEN", number)
	if got, err := waiter.Read(); err != nil || got[0] != ':' {
		t.Fatalf("got %q %v", got, err)
	}
	subscriber.Want(t, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n", "SUBSCRIBE", "news")
	proxytest.Eventually(t, "a message arrives", func() bool { return c.Reply(t, "PUBLISH", "news", "x") == ":1\r\n" })
	if err := blocked.Send(redistest.Command("BLPOP", "list", "0")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it is blocked", func() bool { return l.Upstream.Nodes.Pinned() > 0 })
	c.Want(t, ":1\r\n", "RPUSH", "list", "x")
	if got, err := blocked.Read(); err != nil || got != "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n" {
		t.Fatalf("got %q %v", got, err)
	}
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "SET", "k", "1")
	c.Want(t, "*1\r\n+OK\r\n", "EXEC")
}

// wantOnlyTLS fails unless all connections to a Redis go to its port for TLS, but for those of the
// test.
func wantOnlyTLS(t *testing.T, s *redistest.Server, port string, ofTest int) {
	t.Helper()
	plain := 0
	for line := range strings.Lines(s.Client().ClientList(t.Context()).Val()) {
		if m := proxytest.Fields(line); !strings.HasSuffix(m["laddr"], ":"+port) && m["flags"] != "M" && m["flags"] != "S" {
			plain++
		}
	}
	if plain > ofTest {
		t.Errorf("%d connections without TLS:\n%s", plain, s.Client().ClientList(t.Context()).Val())
	}
}

// TestUpstreamTLS checks that every connection to a Redis has TLS.
func TestUpstreamTLS(t *testing.T) {
	ca := certtest.NewAuthority(t)
	port := freePort(t)
	redis := redistest.Start(t, tlsArgs(ca, ca.Issue(t, nil), port)...)
	l := proxytest.Start(t, []string{"127.0.0.1:" + port}, withTLS(t, ca))
	useEverything(t, l)
	wantOnlyTLS(t, redis, port, 1)
	redis.Client().ClientKillByFilter(t.Context(), "TYPE", "normal")
	c := l.Dial(t)
	proxytest.Eventually(t, "the links are back", func() bool { return c.Reply(t, "GET", "k") == "$1\r\n1\r\n" })
	proxytest.Token(t, c, "another lock")
}

// TestUpstreamTLSCluster checks that the names of a cluster's nodes are verified: their
// certificates have no address. The nodes have no port without TLS.
func TestUpstreamTLSCluster(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair := ca.Issue(t, nil, "localhost")
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{
		TLS: &redistest.TLS{CA: ca.CA, Cert: pair.Cert, Key: pair.Key, Config: &tls.Config{
			RootCAs: ca.Pool, ServerName: "localhost", Certificates: []tls.Certificate{pair.Load(t)}}},
		Args: []string{"--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"},
	})
	_, port, err := net.SplitHostPort(cluster.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	l := proxytest.Start(t, []string{"localhost:" + port}, withTLS(t, ca))
	useEverything(t, l)
	c := l.Dial(t)
	for i := range 50 {
		c.Want(t, "+OK\r\n", "SET", fmt.Sprint("key", i), "x")
		proxytest.Token(t, c, fmt.Sprint("lock", i))
	}
	for _, m := range l.Upstream.Topology().Masters() {
		if !strings.HasPrefix(m.Addr, "localhost:") {
			t.Errorf("master %s", m.Addr)
		}
	}
}

// TestUpstreamTLSSentinel checks a sentinel that speaks TLS, in front of a Redis that does. It has
// an authority of its own, and a certificate for another name than its address.
func TestUpstreamTLSSentinel(t *testing.T) {
	ca, theirs := certtest.NewAuthority(t), certtest.NewAuthority(t)
	pair, port, at := ca.Issue(t, nil), freePort(t), freePort(t)
	own := theirs.Issue(t, nil, "sentinels.internal")
	redis := redistest.Start(t, append(tlsArgs(ca, pair, port), "--tls-replication", "yes")...)
	dir := t.TempDir()
	config := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port 0\ntls-port %s\ntls-cert-file %s\ntls-key-file %s\ntls-client-cert-file %s\n"+
		"tls-client-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients no\ntls-replication yes\ndir %s\n"+
		"sentinel monitor mymaster 127.0.0.1 %s 1\n", at, own.Cert, own.Key, pair.Cert, pair.Key, ca.CA, dir, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := exec.Command("redis-server", config, "--sentinel")
	if err := sentinel.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sentinel.Process.Kill(); _ = sentinel.Wait() })
	secure := withTLS(t, ca)
	l := proxytest.Start(t, []string{"127.0.0.1:" + at}, secure, func(o *proxytest.Options) {
		o.Upstream.Mode, o.Upstream.SentinelMaster = "sentinel", "mymaster"
		o.Upstream.SentinelTLS = func() *tls.Config {
			return &tls.Config{RootCAs: theirs.Pool, ServerName: "sentinels.internal"}
		}
	})
	useEverything(t, l)
	info := l.Dial(t).Reply(t, "INFO", "leash")
	if !strings.Contains(info, "leash_upstream_mode:sentinel") {
		t.Error(info)
	}
	wantOnlyTLS(t, redis, port, 1)
}

// TestUpstreamTLSRefused checks that Leash does not serve a Redis that it cannot verify, and that
// the error names what to change.
func TestUpstreamTLSRefused(t *testing.T) {
	ours, theirs := certtest.NewAuthority(t), certtest.NewAuthority(t)
	port := freePort(t)
	redis := redistest.Start(t, tlsArgs(ours, ours.Issue(t, nil, "redis.internal"), port)...)
	client := []tls.Certificate{ours.Issue(t, nil, "client").Load(t)}
	for name, c := range map[string]struct {
		addr   string
		config *tls.Config
		want   string
	}{
		"wrong authority": {"127.0.0.1:" + port, &tls.Config{RootCAs: theirs.Pool, Certificates: client,
			ServerName: "redis.internal"}, "check --upstream-tls-ca"},
		"wrong name": {"127.0.0.1:" + port, &tls.Config{RootCAs: ours.Pool, Certificates: client},
			"--upstream-tls-server-name"},
		"no certificate": {"127.0.0.1:" + port, &tls.Config{RootCAs: ours.Pool, ServerName: "redis.internal"}, "cert"},
		"no TLS there": {redis.Addr, &tls.Config{RootCAs: ours.Pool, Certificates: client},
			"check that the server there speaks TLS"},
		"no TLS here": {"127.0.0.1:" + port, nil, "give --upstream-tls"},
	} {
		cfg := upstream.Config{Addrs: []string{c.addr}, Wait: 3 * time.Second}
		if c.config != nil {
			cfg.TLS = func() *tls.Config { return c.config }
		}
		up, err := upstream.New(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err = up.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	right := func(o *proxytest.Options) {
		config := &tls.Config{RootCAs: ours.Pool, Certificates: client, ServerName: "redis.internal"}
		o.Upstream.TLS = func() *tls.Config { return config }
	}
	proxytest.Start(t, []string{"127.0.0.1:" + port}, right).Dial(t).Want(t, "+PONG\r\n", "PING")
}
