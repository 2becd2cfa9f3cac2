package locks

import (
	"bytes"
	"testing"

	"leash/proxy/command"
	"leash/proxy/resp"
)

// TestInRESP3 checks the null and the map of RESP3, and that other replies stay as they are.
func TestInRESP3(t *testing.T) {
	for reply, want := range map[string]string{
		"$-1\r\n":                        "_\r\n",
		"*-1\r\n":                        "_\r\n",
		":7\r\n":                         ":7\r\n",
		"-ERR no\r\n":                    "-ERR no\r\n",
		"*0\r\n":                         "*0\r\n",
		"*2\r\n$-1\r\n*1\r\n:1\r\n":      "*2\r\n_\r\n*1\r\n:1\r\n",
		"*2\r\n$5\r\nt\r\n:2\r\n:1\r\n":  "*2\r\n$5\r\nt\r\n:2\r\n:1\r\n",
		"*3\r\n$1\r\na\r\n$-1\r\n:1\r\n": "*3\r\n$1\r\na\r\n_\r\n:1\r\n",
		"*2\r\n$5\r\n$-1\r\n\r\n$-1\r\n": "*2\r\n$5\r\n$-1\r\n\r\n_\r\n", // no null within a value
	} {
		if got := string(inRESP3([]byte(reply), false)); got != want {
			t.Errorf("%q: got %q, want %q", reply, got, want)
		}
	}
	if got, want := string(inRESP3([]byte("*4\r\n+a\r\n:1\r\n+b\r\n$-1\r\n"), true)), "%2\r\n+a\r\n:1\r\n+b\r\n_\r\n"; got != want {
		t.Errorf("as a map: got %q, want %q", got, want)
	}
}

// FuzzInRESP3 checks that a reply stays one whole reply.
func FuzzInRESP3(f *testing.F) {
	for _, frame := range []string{"$-1\r\n", "*-1\r\n", "*0\r\n", "*2\r\n:1\r\n$-1\r\n", "*1\r\n*1\r\n$1\r\na\r\n", "%1\r\n+a\r\n_\r\n"} {
		f.Add([]byte(frame))
	}
	isReply := func(b []byte) bool {
		var s resp.Scanner
		n, done, err := s.Scan(b)
		return err == nil && done && n == len(b)
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		if got := inRESP3(reply, false); isReply(reply) && !isReply(got) {
			t.Errorf("%q became %q", reply, got)
		}
	})
}

// TestNeedsRoom checks which commands count as holders and as waiters.
func TestNeedsRoom(t *testing.T) {
	table := command.New(nil)
	for text, want := range map[string]bool{
		"LOCK.ACQUIRE k": true, "SEM.ACQUIRE k": true, "LATCH.AWAIT k block 100": true, "LATCH.AWAIT k": false,
		"LOCK.RELEASE k": false, "LOCK.INFO block": false,
	} {
		args := bytes.Fields([]byte(text))
		if got := NeedsRoom(table.Lookup(args).Own, args); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

// TestUnusedClient checks that a session that has used no lock has none.
func TestUnusedClient(t *testing.T) {
	var l Client
	l.BeginSilence()
	l.RestartSilence()
	l.EndSilence()
	l.Identify()
	l.Close(0)
	if l.Carrier() != nil || l.Holds() != 0 || l.Running() {
		t.Error("it has a lock")
	}
}

// TestRefuseGrants checks that the connection of a client whose command runs may not move.
func TestRefuseGrants(t *testing.T) {
	l := new(Client)
	l.watcher.Store(&new(watch).Watcher)
	if l.RefuseGrants() || l.moves.Load() {
		t.Error("a command runs")
	}
	l.watcher.Store(nil)
	if !l.RefuseGrants() || !l.moves.Load() {
		t.Error("no command runs")
	}
}
