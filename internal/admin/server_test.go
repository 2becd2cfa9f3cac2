package admin

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/certtest"
)

// port is a running Server.
type port struct {
	*Server
	addr  string
	ready atomic.Bool
	stop  func() error // ends Run and returns its error
}

// start runs a Server until the test ends. change, if not nil, changes it before.
func start(t *testing.T, token string, change func(*Server, net.Listener) net.Listener) *port {
	t.Helper()
	p := &port{}
	p.Server = New(Config{
		Token: token, Ready: func(context.Context) bool { return p.ready.Load() }, Log: slog.New(slog.DiscardHandler),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "series 1\n") }),
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = ln.Addr().String()
	if change != nil {
		ln = change(p.Server, ln)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, ln) }()
	p.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = p.stop() })
	return p
}

// get returns the status and the body of an answer.
func (p *port) get(t *testing.T, path, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+p.addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

func (p *port) want(t *testing.T, status int, path, token string) {
	t.Helper()
	if got, body := p.get(t, path, token); got != status {
		t.Errorf("%s with %q: got %d, want %d: %s", path, token, got, status, body)
	}
}

func TestHealth(t *testing.T) {
	p := start(t, "", nil)
	p.want(t, 200, "/livez", "")
	p.want(t, 503, "/readyz", "")
	p.ready.Store(true)
	p.want(t, 200, "/readyz", "")
	p.ready.Store(false)
	p.want(t, 503, "/readyz", "")
	p.want(t, 200, "/livez", "")
	p.want(t, 404, "/", "")
}

// TestToken checks what wants the token, and that there are no profiles without one.
func TestToken(t *testing.T) {
	open, closed := start(t, "", nil), start(t, "open sesame", nil)
	open.want(t, 200, "/metrics", "")
	open.want(t, 404, "/debug/pprof/", "")
	open.want(t, 404, "/debug/pprof/heap", "Bearer open sesame")
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap?debug=1"} {
		for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer open", "Bearer open sesame!", "Basic open sesame"} {
			closed.want(t, 401, path, wrong)
		}
		closed.want(t, 200, path, "Bearer open sesame")
		closed.want(t, 200, path, "bearer open sesame")
	}
	closed.want(t, 404, "/debug/pprof/cmdline", "Bearer open sesame")
	closed.want(t, 200, "/livez", "")
	closed.want(t, 503, "/readyz", "")
}

// TestProfileOutlastsTheTimeForReading checks that a profile lasts as long as it was asked for.
func TestProfileOutlastsTheTimeForReading(t *testing.T) {
	p := start(t, "t", func(s *Server, ln net.Listener) net.Listener {
		s.http.ReadTimeout = 100 * time.Millisecond
		return ln
	})
	began := time.Now()
	status, body := p.get(t, "/debug/pprof/trace?seconds=1", "Bearer t")
	if took := time.Since(began); status != 200 || len(body) == 0 || took < time.Second {
		t.Errorf("status %d, %d bytes after %v", status, len(body), took)
	}
}

func TestTLS(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair := ca.Issue(t, nil, "leash")
	certificate, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "", func(_ *Server, ln net.Listener) net.Listener {
		return tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate}})
	})
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool, ServerName: "leash"}}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("https://" + p.addr + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 200 {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// TestIdleConnectionsKeepNobodyOut opens more connections than allowed, some of which send half a
// request. The health check still has an answer.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	p := start(t, "", nil)
	for i := range 8 * maxConnections {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			_, _ = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: ")
		}
	}
	p.want(t, 200, "/livez", "")
	p.connections.mu.Lock()
	defer p.connections.mu.Unlock()
	if n := len(p.connections.all); n > maxConnections {
		t.Errorf("%d connections, want %d at most", n, maxConnections)
	}
}

// TestRunningRequestsStay checks that the limit closes no connection whose request runs.
func TestRunningRequestsStay(t *testing.T) {
	running, goOn := make(chan struct{}), make(chan struct{})
	p := start(t, "", func(s *Server, ln net.Listener) net.Listener {
		s.cfg.Ready = func(context.Context) bool { running <- struct{}{}; <-goOn; return true }
		s.connections.limit = 2
		return ln
	})
	answers := make(chan string, 2)
	for range 2 {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
		go func() {
			line, _ := bufio.NewReader(c).ReadString('\n')
			answers <- line
		}()
		<-running
	}
	extra, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	if b, err := io.ReadAll(extra); len(b) > 0 {
		t.Errorf("the third connection got %q, %v", b, err)
	}
	close(goOn)
	for range 2 {
		if line := <-answers; !strings.Contains(line, "200") {
			t.Errorf("a running request got %q", line)
		}
	}
}

// TestGarbage sends random bytes, also in the middle of a request.
func TestGarbage(t *testing.T) {
	p := start(t, "", nil)
	for seed := range 100 {
		random := rand.New(rand.NewPCG(1, uint64(seed)))
		b := []byte("GET /metrics HTTP/1.1\r\nHost: leash\r\nX: y\r\n\r\n")
		for range 1 + random.IntN(20) {
			b[random.IntN(len(b))] = byte(random.Uint32())
		}
		if seed%4 == 0 {
			b = bytes.Repeat(b, 1000)
		}
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b)
		c.Close()
	}
	p.want(t, 200, "/livez", "")
}

// TestRunEnds checks that a stop closes idle connections and waits for no client.
func TestRunEnds(t *testing.T) {
	p := start(t, "", nil)
	idle, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	_, _ = io.WriteString(idle, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	if line, err := bufio.NewReader(idle).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("got %q, %v", line, err)
	}
	half, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	_, _ = io.WriteString(half, "GET /live")
	if err := p.stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if c, err := net.Dial("tcp", p.addr); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}

// TestAPanicEndsOnlyItsRequest checks the answer of a handler that panics.
func TestAPanicEndsOnlyItsRequest(t *testing.T) {
	p := start(t, "", func(s *Server, ln net.Listener) net.Listener {
		s.cfg.Ready = func(context.Context) bool { panic("no") }
		return ln
	})
	p.want(t, 500, "/readyz", "")
	p.want(t, 200, "/livez", "")
}
