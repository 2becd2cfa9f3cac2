package client_test

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// Headers with the same client and balancer address, in both versions.
const (
	header1 = "PROXY TCP4 203.0.113.7 198.51.100.1 54321 6379\r\n"
	header2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x11" + "\xcb\x00\x71\x07" + "\xc6\x33\x64\x01" +
		"\xd4\x31\x18\xeb" + "\x04\x00\x02hi"
	// headerLocal is the header of a health check.
	headerLocal = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"

	headerClient, headerServer = "203.0.113.7:54321", "198.51.100.1:6379"
)

func balanced(o *proxytest.Options) { o.Front.ProxyProtocol = true }

// through dials as a balancer that sends this header.
func through(t testing.TB, l *proxytest.Leash, header string) *redistest.Client {
	t.Helper()
	c := l.Dial(t)
	if err := c.Send(header); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestProxyHeaderGivesClientAddress checks that CLIENT INFO, CLIENT LIST, LOCK.INFO and the log
// show the client's address.
func TestProxyHeaderGivesClientAddress(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, balanced)
	for _, header := range []string{header1, header2} {
		c := through(t, l, header)
		own := proxytest.Fields(proxytest.Text(t, c.Reply(t, "CLIENT", "INFO")))
		if own["addr"] != headerClient || own["laddr"] != headerServer || own["flags"] != "N" {
			t.Errorf("CLIENT INFO: %v", own)
		}
		proxytest.Token(t, c, "k")
		if info := c.Reply(t, "LOCK.INFO", "k"); !strings.Contains(info, "\r\n"+headerClient+"\r\n") {
			t.Errorf("LOCK.INFO: %q", info)
		}
		other := through(t, l, headerLocal)
		if proxytest.Listed(t, other, headerClient) == nil ||
			proxytest.Listed(t, other, proxytest.AddrOf(other)) == nil {
			t.Errorf("CLIENT LIST: %s", proxytest.Text(t, other.Reply(t, "CLIENT", "LIST")))
		}
		c.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
		other.Want(t, ":1\r\n", "CLIENT", "KILL", "ADDR", headerClient)
		proxytest.WantClosed(t, c)
	}
	if !strings.Contains(l.Logs.String(), "client="+headerClient) {
		t.Error("the log does not name the client")
	}
}

// TestProxyHeaderInPieces checks that a header may arrive in pieces, or in one write with the
// first command.
func TestProxyHeaderInPieces(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, balanced)
	for _, header := range []string{header1, header2, headerLocal, "PROXY UNKNOWN\r\n"} {
		raw := header + redistest.Command("PING")
		for _, cut := range []int{0, 1, 5, 12, len(header) - 1, len(header), len(header) + 1} {
			if got := proxytest.ExchangePieces(t, l.Addr, raw, cut); got != "+PONG\r\n" {
				t.Errorf("%q cut at %d: got %q", header, cut, got)
			}
		}
	}
}

// TestProxyHeaderIsRequired checks that a connection without a header is closed without an answer.
// Leash counts each one and logs one warning.
func TestProxyHeaderIsRequired(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, balanced)
	strangers := []string{"PING\r\n", redistest.Command("PING"), "PROXY TCP4 1.2.3.4 nowhere 1 2\r\nPING\r\n",
		header1[:20], header2[:14], header2[:30]}
	for _, raw := range strangers {
		if got := proxytest.Exchange(t, l.Addr, raw); got != "" {
			t.Errorf("%q: got %q", raw, got)
		}
	}
	if got := proxytest.Exchange(t, l.Addr, ""); got != "" { // a health check
		t.Errorf("got %q", got)
	}
	info := proxytest.Text(t, through(t, l, headerLocal).Reply(t, "INFO", "leash"))
	if got := proxytest.InfoLine(info, "leash_proxy_header_errors"); got != strconv.Itoa(len(strangers)) {
		t.Errorf("%q counted", got)
	}
	if n := strings.Count(l.Logs.String(), `level=WARN msg="connection without the header`); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

// TestProxyHeaderTimeout checks that a connection that sends no header is closed after a
// time-out.
func TestProxyHeaderTimeout(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, balanced, func(o *proxytest.Options) {
		o.Front.HeaderTimeout = 200 * time.Millisecond
	})
	for _, c := range []*redistest.Client{through(t, l, ""), through(t, l, "P"), through(t, l, header2[:20])} {
		if got, err := c.Read(); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %q %v, want the end", got, err)
		}
	}
	if n := l.Figures().HeaderErrors; n != 3 {
		t.Errorf("%d counted", n)
	}
}

// TestMissingProxyHeaderDelaysNoOtherConnection checks that a connection without a header delays no
// other connection.
func TestMissingProxyHeaderDelaysNoOtherConnection(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, balanced, func(o *proxytest.Options) {
		o.Front.HeaderTimeout = time.Hour
	})
	for range 20 {
		through(t, l, header2[:20])
	}
	through(t, l, header2).Want(t, "+PONG\r\n", "PING")
}

// TestStopDoesNotWaitForProxyHeader checks that a stop does not wait for headers and does not count
// them as errors.
func TestStopDoesNotWaitForProxyHeader(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, balanced, func(o *proxytest.Options) {
		o.Front.DrainTimeout, o.Front.HeaderTimeout = time.Hour, time.Hour
	})
	for range 5 {
		through(t, l, "PROXY")
	}
	proxytest.Eventually(t, "they are accepted", func() bool { return l.Clients() == 5 })
	start := time.Now()
	l.Stop()
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("stopped after %v", d)
	}
	if n := l.Figures().HeaderErrors; n != 0 {
		t.Errorf("%d counted", n)
	}
}

// TestR28CloseByBalancerLetsLocksExpire checks that locks run out when a balancer closes the
// connection, because it also closes when the client's host has vanished (R28). QUIT and a close on
// a unix socket release them.
func TestR28CloseByBalancerLetsLocksExpire(t *testing.T) {
	redis := redistest.Start(t)
	socket := "unix:" + t.TempDir() + "/leash.sock"
	for _, row := range []struct {
		setting, last string
		unix          bool
		stays         bool
	}{
		{setting: "auto", stays: true},
		{setting: "expire", stays: true},
		{setting: "release"},
		{setting: "auto", last: "QUIT"},
		{setting: "auto", last: "RESET"},
		{setting: "auto", unix: true},
	} {
		l := proxytest.Start(t, []string{redis.Addr}, balanced, func(o *proxytest.Options) {
			o.Front.OnDisconnect, o.Listen = row.setting, append(o.Listen, socket)
		})
		c := through(t, l, header2)
		if row.unix {
			nc, err := net.Dial("unix", strings.TrimPrefix(socket, "unix:"))
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			c = redistest.NewClient(nc)
		}
		proxytest.Token(t, c, "k")
		if row.last != "" {
			c.Reply(t, row.last)
		}
		c.Close()
		proxytest.Eventually(t, "the session ends", func() bool { return l.Clients() == 0 })
		l.Stop() // what is released has been
		if stays := redis.Client().Exists(t.Context(), "k").Val() == 1; stays != row.stays {
			t.Errorf("%+v: stays %v", row, stays)
		}
		redis.Client().Del(t.Context(), "k")
	}
}

// TestClusterAddressBehindBalancer checks that CLUSTER SLOTS names the address that the client
// connected to, which is the balancer's.
func TestClusterAddressBehindBalancer(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs(), balanced)
	if got := through(t, l, header2).Reply(t, "CLUSTER", "SLOTS"); !strings.Contains(got,
		"\r\n198.51.100.1\r\n:6379\r\n") {
		t.Errorf("CLUSTER SLOTS: %q", got)
	}
}
