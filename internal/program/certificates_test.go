package program

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"leash/internal/certtest"
	"leash/internal/config"
	"leash/internal/redistest"
	"leash/internal/tlsfiles"
)

// connectTLS opens a TLS connection to Leash. It also returns the serial number of Leash's
// certificate.
func connectTLS(t *testing.T, addr string, config *tls.Config) (c *redistest.Client, serial string) {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return redistest.NewClient(conn), conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func wantReply(t *testing.T, c *redistest.Client, want string, args ...string) {
	t.Helper()
	if got, err := c.Do(args...); err != nil || got != want {
		t.Fatalf("%q: got %q %v, want %q", args, got, err, want)
	}
}

// TestTLSAtBothSides starts Leash before its Redis, both with TLS only, and renews its certificate
// under 1,000 connections. None drops.
func TestTLSAtBothSides(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair, ours, port := ca.Issue(t, nil), ca.Issue(t, nil, "leash"), redistest.FreeAddr(t)
	_, number, _ := net.SplitHostPort(port)
	redis := redistest.Start(t, "--tls-port", number, "--tls-cert-file", pair.Cert, "--tls-key-file", pair.Key,
		"--tls-ca-cert-file", ca.CA,
		"--user", "app", "on", ">s,cret", "~*", "&*", "+@all")
	redis.Kill()
	listen := redistest.FreeAddr(t)
	var log logFile
	end := begin(t, &log, "--listen", "127.0.0.1:0", "--drain-timeout", "0",
		"--tls-listen", listen, "--tls-cert", ours.Cert, "--tls-key", ours.Key,
		"--upstream", "rediss://app:s%2Ccret@"+port, "--trust-clients",
		"--upstream-tls-ca", ca.CA, "--upstream-tls-cert", ours.Cert, "--upstream-tls-key", ours.Key)
	client := &tls.Config{RootCAs: ca.Pool, ServerName: "leash"}
	eventually(t, "Leash logs what it waits for", func() bool { return strings.Contains(log.String(), "waiting for redis") })
	c, first := connectTLS(t, listen, client)
	if got, err := c.Read(); err != nil || !strings.HasPrefix(got, "-UPSTREAMDOWN Leash waits for Redis") {
		t.Errorf("got %q %v", got, err)
	}
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
	var clients []*redistest.Client
	for range 1000 {
		c, _ := connectTLS(t, listen, client)
		wantReply(t, c, "+PONG\r\n", "PING")
		clients = append(clients, c)
	}
	ca.Issue(t, nil, "leash")
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "new connections get the new certificate", func() bool {
		c, serial := connectTLS(t, listen, client)
		defer c.Close()
		return serial != first
	})
	for _, c := range clients {
		wantReply(t, c, "+PONG\r\n", "PING")
	}
	info, err := clients[0].Do("INFO", "leash")
	for _, line := range []string{"tls_certificate_errors:0", "tls_certificate_days:0", "tls_handshake_errors:0"} {
		if err != nil || !strings.Contains(info, "\r\nleash_"+line+"\r\n") {
			t.Errorf("INFO lacks %s: %s %v", line, info, err)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "cret") {
		t.Errorf("the log has the password:\n%s", log.String())
	}
}

// TestTLSUserFromCertificate checks the flags that make a certificate's name the ACL user.
func TestTLSUserFromCertificate(t *testing.T) {
	ca := certtest.NewAuthority(t)
	ours, listen := ca.Issue(t, nil, "leash"), redistest.FreeAddr(t)
	redis := redistest.Start(t, "--user", "app", "on", ">secret", "~*", "&*", "+@all")
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("app secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log logFile
	end := begin(t, &log, "--listen", "127.0.0.1:0", "--drain-timeout", "0", "--upstream", redis.Addr,
		"--tls-listen", listen, "--tls-cert", ours.Cert, "--tls-key", ours.Key, "--tls-client-ca", ca.CA,
		"--tls-user-from", "cn", "--tls-users-file", users)
	eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
	c, _ := connectTLS(t, listen, &tls.Config{
		RootCAs: ca.Pool, ServerName: "leash", Certificates: []tls.Certificate{ca.Issue(t, nil, "app").Load(t)},
	})
	wantReply(t, c, "$3\r\napp\r\n", "ACL", "WHOAMI")
	if err := end(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log has the password:\n%s", log.String())
	}
}

// TestCertificatesForSentinels checks which files Leash takes for sentinels.
func TestCertificatesForSentinels(t *testing.T) {
	ours, theirs := certtest.NewAuthority(t), certtest.NewAuthority(t)
	redis, sentinels := ours.Issue(t, nil, "leash"), theirs.Issue(t, nil, "watcher")
	cfg := config.Config{UpstreamTLSCA: ours.CA, UpstreamTLSCert: redis.Cert, UpstreamTLSKey: redis.Key,
		UpstreamTLSServerName: "redis.internal", SentinelTLS: true, TLSUserFrom: tlsfiles.UserFromNone}
	check := func(ca *certtest.Authority, pair certtest.Pair, name string) {
		t.Helper()
		c, err := loadCertificates(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		got := c.sentinels.Config()
		if !slices.EqualFunc(got.Certificates[0].Certificate, pair.Load(t).Certificate, bytes.Equal) {
			t.Error("another certificate")
		}
		if !got.RootCAs.Equal(ca.Pool) || got.ServerName != name {
			t.Errorf("other authorities, or the name %q", got.ServerName)
		}
	}
	check(ours, redis, "")
	cfg.SentinelTLSCA, cfg.SentinelTLSCert, cfg.SentinelTLSKey = theirs.CA, sentinels.Cert, sentinels.Key
	cfg.SentinelTLSServerName = "sentinels.internal"
	check(theirs, sentinels, "sentinels.internal")
}
