package client_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/certtest"
	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// tlsLeash is a Leash with a port for TLS, and the settings of a client that trusts it.
type tlsLeash struct {
	*proxytest.Leash
	authority *certtest.Authority
	client    *tls.Config
}

func startTLS(t *testing.T, addrs []string, opts ...func(*proxytest.Options)) *tlsLeash {
	t.Helper()
	ca := certtest.NewAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, nil).Load(t)}}
	opts = append([]func(*proxytest.Options){func(o *proxytest.Options) { o.TLS = config }}, opts...)
	return &tlsLeash{proxytest.Start(t, addrs, opts...), ca, &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}}
}

// connect opens a TLS connection that the test closes at its end.
func (s *tlsLeash) connect(t testing.TB) (*redistest.Client, *tls.Conn) {
	t.Helper()
	conn, err := tls.Dial("tcp", s.TLS, s.client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return redistest.NewClient(conn), conn
}

// TestTLSServesClients checks short and long commands and replies, and pipelines.
func TestTLSServesClients(t *testing.T) {
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr})
	c, _ := l.connect(t)
	c.Want(t, "+PONG\r\n", "PING")
	for _, size := range []int{0, 1, 1000, 16 << 10, 16<<10 + 1, 100_000, 8 << 20} {
		value := strings.Repeat("v", size)
		c.Want(t, "+OK\r\n", "SET", "k", value)
		c.Want(t, "$"+strconv.Itoa(size)+"\r\n"+value+"\r\n", "GET", "k")
	}
	const count = 5000
	if err := c.Send(strings.Repeat(redistest.Command("PING"), count)); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if got, err := c.Read(); err != nil || got != "+PONG\r\n" {
			t.Fatalf("reply %d: %q %v", i, got, err)
		}
	}
}

// TestTLSClientThatReadsLate checks that replies which its socket does not take wait for the
// client.
func TestTLSClientThatReadsLate(t *testing.T) {
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr})
	c, _ := l.connect(t)
	value := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
	c.Want(t, "+OK\r\n", "SET", "k", value)
	const count = 20
	if err := c.Send(strings.Repeat(redistest.Command("GET", "k"), count)); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "its socket is full", func() bool { return l.Unread() > 1<<20 })
	for i := range count {
		if got, err := c.Read(); err != nil || got != "$1048576\r\n"+value+"\r\n" {
			t.Fatalf("reply %d has %d bytes, %v", i, len(got), err)
		}
	}
}

// TestTLSHalfClose checks that a client that has sent its last byte gets its replies, and then an
// end that is no accident.
func TestTLSHalfClose(t *testing.T) {
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr})
	for name, end := range map[string]func(*tls.Conn) error{
		"as TLS does": (*tls.Conn).CloseWrite,
		"by FIN":      func(c *tls.Conn) error { return c.NetConn().(*net.TCPConn).CloseWrite() },
	} {
		_, conn := l.connect(t)
		if _, err := io.WriteString(conn, redistest.Command("PING")+redistest.Command("ECHO", "x")); err != nil {
			t.Fatal(err)
		}
		if err := end(conn); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		if string(got) != "+PONG\r\n$1\r\nx\r\n" || err != nil {
			t.Errorf("%s: got %q %v", name, got, err)
		}
	}
}

// TestTLSEndings checks what happens to the lock of a client by how its connection ends (R28).
func TestTLSEndings(t *testing.T) {
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr}, proxytest.Watchdog(10*time.Minute))
	for name, end := range map[string]struct {
		how    func(*redistest.Client, *tls.Conn)
		expire bool
	}{
		"end of TLS": {func(_ *redistest.Client, c *tls.Conn) { c.Close() }, false},
		"FIN":        {func(_ *redistest.Client, c *tls.Conn) { c.NetConn().Close() }, false},
		"quit":       {func(c *redistest.Client, _ *tls.Conn) { c.Want(t, "+OK\r\n", "QUIT") }, false},
		"reset": {func(_ *redistest.Client, c *tls.Conn) {
			_ = c.NetConn().(*net.TCPConn).SetLinger(0)
			c.NetConn().Close()
		}, true},
		"not TLS any more": {func(_ *redistest.Client, c *tls.Conn) {
			_, _ = io.WriteString(c.NetConn(), "PING\r\n")
		}, true},
	} {
		c, conn := l.connect(t)
		proxytest.Token(t, c, name)
		end.how(c, conn)
		proxytest.Eventually(t, name+": the session ends", func() bool { return l.Clients() == 0 })
		if got := redis.Client().Exists(t.Context(), name).Val() == 1; got != end.expire {
			t.Errorf("%s: the lock stays %v", name, got)
		}
	}
}

// TestTLSHolderKilled checks that kill -9 of a holder frees its lock at once, for a waiter with
// TLS.
func TestTLSHolderKilled(t *testing.T) {
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr})
	for range 10 {
		cli := exec.Command("redis-cli", append([]string{"--tls", "--cacert", l.authority.CA}, cliAddr(l.TLS)...)...)
		in, err := cli.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cli.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cli.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cli.Process.Kill(); _ = cli.Wait() })
		if _, err := io.WriteString(in, "LOCK.ACQUIRE k\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line == "" {
			t.Fatal(line, err)
		}
		waiter, _ := l.connect(t)
		proxytest.KillHolder(t, l.Leash, cli.Process, waiter)
		waiter.Close()
	}
}

func cliAddr(addr string) []string {
	host, port, _ := net.SplitHostPort(addr)
	return []string{"-h", host, "-p", port}
}

// TestTLSAfterProxyHeader checks that the header of a balancer comes before the handshake.
func TestTLSAfterProxyHeader(t *testing.T) {
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr}, balanced)
	for _, header := range []string{header1, header2} {
		raw, err := net.Dial("tcp", l.TLS)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(raw, header); err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(raw, l.client)
		t.Cleanup(func() { conn.Close() })
		c := redistest.NewClient(conn)
		if own := proxytest.Fields(proxytest.Text(t, c.Reply(t, "CLIENT", "INFO"))); own["addr"] != headerClient {
			t.Errorf("CLIENT INFO: %v", own)
		}
	}
}

// TestTLSAndPlainMixedUp checks that the log says which port is for what, once, and that other
// clients are served.
func TestTLSAndPlainMixedUp(t *testing.T) {
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr})
	for range 3 {
		if got := proxytest.Exchange(t, l.TLS, redistest.Command("PING")); got != "-ERR this port expects TLS\r\n" {
			t.Errorf("got %q", got)
		}
		if conn, err := tls.Dial("tcp", l.Addr, l.client); err == nil {
			conn.Close()
			t.Error("a port without TLS speaks TLS")
		}
	}
	proxytest.Eventually(t, "all are counted", func() bool { return l.Figures().HandshakeErrors == 6 })
	for _, line := range []string{
		`level=WARN msg="a client does not speak TLS on a port of --tls-listen, closing it"`,
		`level=WARN msg="a client speaks TLS on a port of --listen, closing it"`,
	} {
		if n := strings.Count(l.Logs.String(), line); n != 1 {
			t.Errorf("%d times: %s", n, line)
		}
	}
	c, _ := l.connect(t)
	c.Want(t, "+PONG\r\n", "PING")
}

// TestTLSRefuses checks which clients get no connection.
func TestTLSRefuses(t *testing.T) {
	redis := redistest.Start(t)
	ours, theirs := certtest.NewAuthority(t), certtest.NewAuthority(t)
	config := &tls.Config{
		Certificates: []tls.Certificate{ours.Issue(t, nil).Load(t)}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: ours.Pool,
	}
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.TLS = config })
	dial := func(c *tls.Config) error {
		c.RootCAs, c.ServerName = ours.Pool, "127.0.0.1"
		conn, err := tls.Dial("tcp", l.TLS, c)
		if err != nil {
			return err
		}
		defer conn.Close()
		got, err := redistest.NewClient(conn).Do("PING")
		if err == nil && got != "+PONG\r\n" {
			err = errors.New(got)
		}
		return err
	}
	with := func(a *certtest.Authority, change func(*x509.Certificate)) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{a.Issue(t, change, "client").Load(t)}}
	}
	if err := dial(with(ours, nil)); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]*tls.Config{
		"no certificate":  {},
		"wrong authority": with(theirs, nil),
		"expired":         with(ours, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"not yet valid":   with(ours, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }),
		"TLS 1.1": {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
			Certificates: with(ours, nil).Certificates},
	} {
		if err := dial(c); err == nil {
			t.Errorf("%s: it got a connection", name)
		}
	}
	proxytest.Eventually(t, "all five are counted", func() bool { return l.Figures().HandshakeErrors == 5 })
}

// TestTLS12 checks the oldest version that is allowed.
func TestTLS12(t *testing.T) {
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr})
	l.client.MaxVersion = tls.VersionTLS12
	c, conn := l.connect(t)
	value := strings.Repeat("v", 1<<20)
	c.Want(t, "+OK\r\n", "SET", "k", value)
	c.Want(t, "$1048576\r\n"+value+"\r\n", "GET", "k")
	if v := conn.ConnectionState().Version; v != tls.VersionTLS12 {
		t.Errorf("version %x", v)
	}
}
