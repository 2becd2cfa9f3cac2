package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/certtest"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/dial"
	"leash/proxy/upstream"
)

// validFrom and validUntil change when a certificate is valid.
func validFrom(from time.Duration) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotBefore = time.Now().Add(from) }
}

func validUntil(end time.Duration) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(end) }
}

// TestTLSLeashIsRefused checks that a client refuses a Leash whose certificate it cannot verify.
// Leash counts each refusal and serves the next client.
func TestTLSLeashIsRefused(t *testing.T) {
	redis := redistest.Start(t)
	ours, theirs := certtest.NewAuthority(t), certtest.NewAuthority(t)
	var config atomic.Pointer[tls.Config]
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		newest := func(*tls.ClientHelloInfo) (*tls.Config, error) { return config.Load(), nil }
		o.TLS = &tls.Config{GetConfigForClient: newest}
	})
	client := &tls.Config{RootCAs: ours.Pool, ServerName: "127.0.0.1"}
	right := ours.Issue(t, nil).Load(t)
	for i, row := range []struct {
		name string
		pair tls.Certificate
	}{
		{"wrong authority", theirs.Issue(t, nil).Load(t)},
		{"expired", ours.Issue(t, validUntil(-time.Minute)).Load(t)},
		{"not yet valid", ours.Issue(t, validFrom(time.Hour)).Load(t)},
		{"wrong host name", ours.Issue(t, nil, "elsewhere").Load(t)},
		{"not for servers", ours.Issue(t, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}).Load(t)},
	} {
		config.Store(&tls.Config{Certificates: []tls.Certificate{row.pair}})
		if conn, err := tls.Dial("tcp", l.TLS, client); err == nil {
			conn.Close()
			t.Errorf("%s: the client took it", row.name)
		}
		proxytest.Eventually(t, row.name+": it is counted", func() bool { return l.Figures().HandshakeErrors == int64(i+1) })
	}
	config.Store(&tls.Config{Certificates: []tls.Certificate{right}})
	conn, err := tls.Dial("tcp", l.TLS, client)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	redistest.NewClient(conn).Want(t, "+PONG\r\n", "PING")
}

// TestTLSRedisIsRefused checks that Leash does not serve a Redis whose certificate is not valid
// now, is not for servers, or that speaks only TLS 1.1.
func TestTLSRedisIsRefused(t *testing.T) {
	ca := certtest.NewAuthority(t)
	notForServers := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	for name, row := range map[string]struct {
		change func(*x509.Certificate)
		max    uint16
		want   string
	}{
		"expired":         {validUntil(-time.Minute), 0, "expired"},
		"not yet valid":   {validFrom(time.Hour), 0, "not yet valid"},
		"not for servers": {notForServers, 0, "incompatible key usage"},
		"TLS 1.1":         {nil, tls.VersionTLS11, "protocol version"},
	} {
		pair := ca.Issue(t, row.change).Load(t)
		server := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10, MaxVersion: row.max}
		ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
		if err != nil {
			t.Fatal(err)
		}
		serving := serveHandshakes(ln)
		cfg := upstream.Config{Addrs: []string{ln.Addr().String()}, Wait: time.Second,
			Config: dial.Config{TLS: func() *tls.Config { return &tls.Config{RootCAs: ca.Pool} }}}
		up, err := upstream.New(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := up.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v", name, err)
		}
		ln.Close()
		serving.Wait()
	}
}

// serveHandshakes accepts connections, does no more than their handshakes, and ends with ln.
func serveHandshakes(ln net.Listener) *sync.WaitGroup {
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_ = conn.(*tls.Conn).Handshake()
				conn.Close()
			})
		}
	})
	return &serving
}

// TestTLSRenegotiation checks that a client of TLS 1.2 that begins a second handshake loses its
// connection, and nobody else does.
func TestTLSRenegotiation(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is missing: no other client renegotiates")
	}
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr})
	beside, _ := l.connect(t)
	openssl := exec.Command("openssl", "s_client", "-connect", l.TLS, "-tls1_2", "-CAfile", l.authority.CA)
	in, err := openssl.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out proxytest.LogBuffer
	openssl.Stdout, openssl.Stderr = &out, &out
	if err := openssl.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = openssl.Process.Kill(); _ = openssl.Wait() })
	if _, err := io.WriteString(in, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it is served", func() bool { return strings.Contains(out.String(), "+PONG") })
	if _, err := io.WriteString(in, "R\n"); err != nil { // renegotiate
		t.Fatal(err)
	}
	proxytest.Eventually(t, "its connection ends", func() bool { return l.Clients() == 1 })
	if !strings.Contains(out.String(), "RENEGOTIATING") {
		t.Errorf("openssl has not renegotiated:\n%s", out.String())
	}
	beside.Want(t, "+PONG\r\n", "PING")
}

// TestTLSByteByByte checks that the time for a handshake does not begin again with each byte, and
// that commands may come in single bytes.
func TestTLSByteByByte(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.HeaderTimeout = 4 * time.Second })
	c, conn := l.connect(t)
	for _, b := range []byte(redistest.Command("ECHO", "slow")) {
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := c.Read(); err != nil || got != "$4\r\nslow\r\n" {
		t.Errorf("got %q %v", got, err)
	}
	raw, err := net.Dial("tcp", l.TLS)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = io.Copy(io.Discard, raw) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	// a record of 16,384 bytes takes 5 minutes
	for bytes := append([]byte("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc"), make([]byte, 16<<10)...); len(bytes) > 0; bytes = bytes[1:] {
		select {
		case <-ended:
			c.Want(t, "+PONG\r\n", "PING")
			return
		case <-tick.C:
			_, _ = raw.Write(bytes[:1])
		}
	}
	t.Error("the handshake went on until its last byte")
}
