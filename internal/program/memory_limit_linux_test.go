package program

import (
	"os"
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
	silent := make([]*redistest.TestClient, 30)
	for i := range silent {
		silent[i] = redistest.Connect(t, l.Addr)
		silent[i].Want("+PONG\r\n", "PING")
	}
	holder.Send(redistest.Command("GET", "large"))
	used := 0
	for deadline := time.Now().Add(ample); healthy.Do("LOCK.ACQUIRE", "other", "OWNER", "me") != oom; {
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
	for _, args := range [][]string{{"MULTI"}, {"SUBSCRIBE", "channel"}, {"BLPOP", "list", "1"}, {"SET", "k", large}} {
		healthy.Want(oom, args...)
	}
	healthy.Want("+OK\r\n", "SET", "k", "v")
	healthy.Want("$1\r\nv\r\n", "GET", "k")
	late := redistest.Connect(t, l.Addr)
	late.WantRead(oom)
	late.WantClosed()
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

// awaitOutput waits until at least so many bytes wait for clients.
func awaitOutput(t *testing.T, c *redistest.TestClient, bytes int64) {
	t.Helper()
	for deadline := time.Now().Add(ample); outputCounted(t, c) < bytes; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d MiB do not wait for clients", bytes/mib)
		}
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
