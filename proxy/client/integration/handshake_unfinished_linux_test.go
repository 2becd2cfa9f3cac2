package client_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestTLSHandshakeNeverFinished checks that thousands of such connections end, delay nobody, and
// leave no goroutine, no descriptor and little memory.
func TestTLSHandshakeNeverFinished(t *testing.T) {
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.HeaderTimeout = 10 * time.Second })
	c, _ := l.connect(t)
	c.Want(t, "+PONG\r\n", "PING")
	files, goroutines, heap := descriptors(t), runtime.NumGoroutine(), heapInUse()
	count := 5000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 12_000 {
		count = 300
	}
	var hello bytes.Buffer
	_ = tls.Client(recorder{&hello}, l.client).Handshake()
	conns := make([]net.Conn, count)
	for i := range conns {
		conn, err := net.Dial("tcp", l.TLS)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(hello.Bytes()[:i%hello.Len()]); err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
		if i%100 == 0 {
			c.Want(t, "+PONG\r\n", "PING")
		}
	}
	other, _ := l.connect(t)
	other.Want(t, "+PONG\r\n", "PING")
	other.Close()
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
			t.Fatal("a connection stays")
		}
		conn.Close()
	}
	proxytest.Eventually(t, "they end", func() bool { return l.Clients() == 1 })
	proxytest.Eventually(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines+20 })
	proxytest.Eventually(t, "the descriptors are closed", func() bool { return descriptors(t) <= files+20 })
	if most := heap + int64(count)*2<<10; heapInUse() > most {
		t.Errorf("%d bytes in use, before %d", heapInUse(), heap)
	}
	c.Want(t, "+PONG\r\n", "PING")
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// heapInUse returns the bytes of all objects that are reachable.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // frees what finalizers kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// recorder keeps what is written, and has nothing to read.
type recorder struct{ b *bytes.Buffer }

func (r recorder) Write(p []byte) (int, error)      { return r.b.Write(p) }
func (recorder) Read([]byte) (int, error)           { return 0, io.EOF }
func (recorder) Close() error                       { return nil }
func (recorder) LocalAddr() net.Addr                { return nil }
func (recorder) RemoteAddr() net.Addr               { return nil }
func (recorder) SetDeadline(time.Time) error        { return nil }
func (recorder) SetReadDeadline(time.Time) error    { return nil }
func (recorder) SetWriteDeadline(t time.Time) error { return nil }
