package lockcmd

import (
	"strings"
	"testing"

	"leash/internal/redistest"
)

// TestR7RefusedLoginIsNotTheClients: Redis wants a password that Leash does not have. A client that
// has logged in must not get Redis's error for that: it would change its own password. It gets
// LOCKTIMEOUT with the reason. When Redis takes Leash's user again, everything works as before.
func TestR7RefusedLoginIsNotTheClients(t *testing.T) {
	t.Parallel() // mostly waiting
	server := redistest.Start(t)
	admin := server.Client().Conn()
	defer admin.Close()
	s := leash(t, dialServer(t, server.Addr), Config{UpstreamTimeout: shortTimeout})
	a := connect(t, s)
	a.token("held", "LEASE", "600000")
	for _, command := range [][]any{{"CONFIG", "SET", "requirepass", "secret"}, {"CLIENT", "KILL", "TYPE", "normal"}} {
		if err := admin.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	commands := make(map[string]func(*testing.T))
	for _, command := range []string{
		"LOCK.ACQUIRE k", "LOCK.ACQUIRE k READ", "LOCK.ACQUIRE k BLOCK 100", "LOCK.MACQUIRE 2 k l", "LOCK.INFO k",
		"SEM.INIT s 3", "SEM.ACQUIRE s", "LATCH.SET n 1", "LATCH.GET n",
	} {
		commands[command] = func(t *testing.T) {
			reply := receive(t, connect(t, s).start(strings.Fields(command)...), soon)
			switch {
			case !strings.HasPrefix(reply, "-LOCKTIMEOUT "):
				t.Errorf("%s was answered %q", command, reply)
			case strings.Contains(reply, "outcome is unknown"): // sent on a connection that was just cut
			case !strings.Contains(reply, "NOAUTH Authentication required.") && !strings.Contains(reply, "unauthenticated"):
				t.Errorf("%s was answered %q, which does not say why", command, reply)
			}
		}
	}
	runParallel(t, commands)
	if err := admin.ConfigSet(t.Context(), "requirepass", "").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "Redis is asked again", func() bool { return a.do("LOCK.CHECK", "held", "TOKEN", "1")[0] == ':' })
	want(t, a.do("LOCK.RELEASE", "held"), ":1")
}
