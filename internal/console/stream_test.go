package console

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/lockcmd/view"
)

// reader reads a stream of events.
type reader struct {
	t    *testing.T
	body io.ReadCloser
	*bufio.Reader
}

func openStream(t *testing.T, s *httptest.Server) *reader {
	t.Helper()
	answer, err := http.Get(s.URL + "/api/events")
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("got %+v, %v", answer, err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return &reader{t, answer.Body, bufio.NewReader(answer.Body)}
}

// next returns the data of the next message of that kind; false at the end of the stream.
func (r *reader) next(kind string) (string, bool) {
	for {
		event, err := r.ReadString('\n')
		data, _ := r.ReadString('\n')
		if _, err2 := r.ReadString('\n'); err != nil || err2 != nil {
			return "", false
		}
		if event == "event: "+kind+"\n" {
			return strings.TrimPrefix(data, "data: "), true
		}
	}
}

func TestStream(t *testing.T) {
	c, s := serve(t, &fake{})
	o := c.Observer()
	if o.Watches() {
		t.Error("grants are wanted without a reader")
	}
	o.Observe(view.Change{Kind: view.Lost, Key: "before"})
	r := openStream(t, s)
	if data, _ := r.next("locks"); !strings.Contains(data, `"before"`) {
		t.Errorf("the first message: %s", data)
	}
	if data, _ := r.next("overview"); !strings.Contains(data, `"version":"v1"`) {
		t.Errorf("the overview: %s", data)
	}
	if !o.Watches() {
		t.Error("grants are not wanted with a reader")
	}
	o.Observe(view.Change{Kind: view.Granted, Key: "after"})
	if data, _ := r.next("locks"); !strings.Contains(data, `"after"`) || strings.Contains(data, "before") {
		t.Errorf("the next message: %s", data)
	}
	r.body.Close()
	eventually(t, "the reader is forgotten", func() bool { return !o.Watches() })
}

// TestMissedEvents checks that a reader is told how many events did not fit into its queue.
func TestMissedEvents(t *testing.T) {
	c, s := serve(t, &fake{})
	r := openStream(t, s)
	r.next("overview")
	told, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-told:
				return
			default:
				c.Observer().Observe(view.Change{Kind: view.Granted, Key: "k"})
			}
		}
	}()
	missed, ok := r.next("missed")
	close(told)
	<-done
	if n, err := strconv.Atoi(strings.TrimSpace(missed)); !ok || err != nil || n < 1 {
		t.Errorf("got %q, %v", missed, err)
	}
	if data, _ := r.next("locks"); strings.Count(data, `"number"`) < 1 {
		t.Errorf("the message after it: %s", data)
	}
}

// TestTooManyStreams checks the limit, and that Close ends all.
func TestTooManyStreams(t *testing.T) {
	c, s := serve(t, &fake{})
	var readers []*reader
	for range maxStreams {
		readers = append(readers, openStream(t, s))
	}
	if status, text := get(t, s, "/api/events"); status != 503 || !strings.Contains(text, "too many pages") {
		t.Errorf("got %d %s", status, text)
	}
	readers[0].body.Close()
	eventually(t, "there is room again", func() bool { return c.feed.readers.Load() < maxStreams })
	readers[0] = openStream(t, s)
	c.Close()
	for _, r := range readers {
		if _, ok := r.next("end"); ok {
			t.Error("a stream goes on")
		}
	}
	if status, _ := get(t, s, "/api/events"); status != 503 {
		t.Errorf("after the end: got %d", status)
	}
}

// TestKeptEvents checks that grants do not push losses out, and what is kept of long keys.
func TestKeptEvents(t *testing.T) {
	f := newFeed()
	long := strings.Repeat("k", 1<<20)
	f.Observe(view.Change{Kind: view.Lost, Key: long, Reason: "gone"})
	for range 10 * keptEvents {
		f.Observe(view.Change{Kind: view.Granted, Key: "k"})
	}
	if got := f.ofLock(0, long); len(got) != 1 || got[0].Reason != "gone" || got[0].Link != "" {
		t.Errorf("the loss: got %+v", got)
	}
	got := f.ofLock(0, "k")
	if len(got) != lockEvents || got[len(got)-1].Number != f.last || got[0].Number != f.last-lockEvents+1 {
		t.Errorf("the grants: got %d", len(got))
	}
	if len(f.ofLock(1, "k")) != 0 {
		t.Error("events of another database")
	}
	if kept := f.losses.list()[0]; len(kept.Key) != maxKeptKey {
		t.Errorf("%d bytes of the key are kept", len(kept.Key))
	}
}

// TestLossesAreNotPushedOut checks which changes a full queue keeps: the newest, and all losses.
func TestLossesAreNotPushedOut(t *testing.T) {
	f := newFeed()
	s, _ := f.open()
	f.Observe(view.Change{Kind: view.Lost})
	const all = 10 * queuedEvents
	for range all {
		f.Observe(view.Change{Kind: view.Granted})
	}
	if n := len(s.losses); n != 1 {
		t.Errorf("%d losses wait", n)
	}
	if first := <-s.others; first.number != 2+all-queuedEvents || s.missed.Load() != all-queuedEvents {
		t.Errorf("the oldest is number %d, %d are missed", first.number, s.missed.Load())
	}
}

// smallBuffers is a listener whose connections take few bytes that nobody reads.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(4096)
	}
	return c, err
}

// TestSlowReader checks that a reader that reads nothing stops nobody and is cut off.
func TestSlowReader(t *testing.T) {
	c := New(Config{
		Backend: func() *Backend { return &Backend{&fake{}, &fake{}} }, Ready: func() bool { return true },
		Log: slog.New(slog.DiscardHandler),
	})
	c.sendTimeout = 100 * time.Millisecond
	s := httptest.NewUnstartedServer(c.API())
	s.Listener = smallBuffers{s.Listener}
	s.Start()
	t.Cleanup(func() { c.Close(); s.Close() })
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	if _, err := io.WriteString(conn, "GET /api/events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	o := c.Observer()
	eventually(t, "the stream is open", o.Watches)
	key := strings.Repeat("k", maxShown)
	eventually(t, "it is cut off", func() bool {
		for range queuedEvents {
			o.Observe(view.Change{Kind: view.Granted, Key: key})
		}
		return !o.Watches()
	})
}
