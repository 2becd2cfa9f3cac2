package program

import (
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// TestMaxMemory: clients that do not read fill the memory of Leash. First new work is refused. Then
// the largest clients are closed, but not one that has a lock. A client that reads notices nothing.
func TestMaxMemory(t *testing.T) {
	t.Parallel()
	redistest.TakesLong(t)
	const oom = "-OOM command not allowed when used memory > 80% of --max-memory on this Leash\r\n"
	s, dir := redistest.Start(t), t.TempDir()
	binary := leashtest.Binary(t)
	l, err := leashtest.Start(t.Context(), binary, dir, "--upstream", s.Addr, "--max-memory", "256MiB")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	healthy, holder := redistest.Connect(t, l.Addr), redistest.Connect(t, l.Addr)
	healthy.Timeout, holder.Timeout = ample, ample
	large := strings.Repeat("x", 16*mib)
	redistest.Connect(t, s.Addr).Want("+OK\r\n", "SET", "large", large)
	if got := holder.Do("LOCK.ACQUIRE", "lock"); got[0] != ':' {
		t.Fatal(got)
	}
	silent := make([]*redistest.TestClient, 50)
	for i := range silent {
		silent[i] = redistest.Connect(t, l.Addr)
		silent[i].Want("+PONG\r\n", "PING")
	}
	holder.Send(redistest.Command("GET", "large"))
	used, deadline := 0, time.Now().Add(ample)
	refused := func() bool { return healthy.Do("LOCK.ACQUIRE", "other", "OWNER", "me") == oom }
	// After some seconds, Leash closes clients that do not read, and serves again.
	for ok := false; !ok; ok = refused() {
		for !refused() {
			before := outputCounted(t, healthy)
			if used == len(silent) || time.Now().After(deadline) {
				t.Fatalf("new work is not refused, and %d bytes wait for clients", before)
			}
			if before > 256*mib*4/5 { // Leash is about to look at its memory
				time.Sleep(20 * time.Millisecond)
				continue
			}
			silent[used].Send(redistest.Command("GET", "large"))
			used++
			awaitOutput(t, healthy, before+4*mib) // the sockets keep the rest
		}
		got := refusals(t, l, healthy, large)
		if n := slices.IndexFunc(got, func(reply string) bool { return reply != oom }); n >= 0 && refused() {
			t.Fatalf("while new work is refused, reply %d is %q", n, got[n])
		}
	}
	healthy.Want("+OK\r\n", "SET", "k", "v")
	healthy.Want("$1\r\nv\r\n", "GET", "k")
	for _, c := range silent[used:] {
		c.Send(redistest.Command("GET", "large"))
	}
	awaitLog(t, l, "too much memory is in use, closed the clients")
	got := ""
	for deadline := time.Now().Add(ample); !strings.HasPrefix(got, ":"); got = healthy.Do("LOCK.ACQUIRE", "other", "OWNER", "me") {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(l.Log)
			t.Fatalf("new work is refused for ever: %q\n%s", got, log)
		}
		time.Sleep(50 * time.Millisecond)
	}
	healthy.Want("$1\r\nv\r\n", "GET", "k")
	if got := holder.Read(); len(got) < len(large) {
		t.Errorf("the holder got %d bytes", len(got))
	}
	holder.Want(":1\r\n", "LOCK.RELEASE", "lock")
}

// refusals returns the replies to commands that need memory, and what a new client gets.
func refusals(t *testing.T, l *leashtest.Leash, c *redistest.TestClient, large string) (replies []string) {
	t.Helper()
	for _, args := range [][]string{{"MULTI"}, {"SUBSCRIBE", "channel"}, {"BLPOP", "list", "1"}, {"SET", "k", large}} {
		reply := c.Do(args...)
		replies = append(replies, reply)
		switch {
		case reply[0] == '-':
		case args[0] == "MULTI":
			c.Do("DISCARD")
		case args[0] == "SUBSCRIBE":
			c.Do("UNSUBSCRIBE")
		}
	}
	conn, err := net.Dial("tcp", l.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(conn) // the error, and then Leash closes the connection
	return append(replies, string(text))
}

// awaitOutput waits until so many bytes wait for clients, for some seconds. Leash may close clients
// meanwhile.
func awaitOutput(t *testing.T, c *redistest.TestClient, bytes int64) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); outputCounted(t, c) < bytes && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
}

// awaitLog waits until Leash has logged a text.
func awaitLog(t *testing.T, l *leashtest.Leash, text string) {
	t.Helper()
	for deadline := time.Now().Add(ample); ; time.Sleep(50 * time.Millisecond) {
		log, err := os.ReadFile(l.Log)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Leash has not logged %q:\n%s", text, log)
		}
	}
}
