package script_test

import (
	"strings"
	"testing"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
)

// TestR7RefusedLoginIsNotTheClients: Redis wants a password that Leash does not have. A client that
// has logged in must not get Redis's error for that: it would change its own password. It gets
// LOCKTIMEOUT with the reason. When Redis takes Leash's user again, everything works as before.
func TestR7RefusedLoginIsNotTheClients(t *testing.T) {
	t.Parallel() // mostly waiting
	server := redistest.Start(t)
	admin := server.Client().Conn()
	defer admin.Close()
	s := locktest.Start(t, locktest.DialServer(t, server.Addr), lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a := locktest.Connect(t, s)
	a.Token("held", "LEASE", "600000")
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
			reply := locktest.Receive(t, locktest.Connect(t, s).Start(strings.Fields(command)...), locktest.Soon)
			switch {
			case !strings.HasPrefix(reply, "-LOCKTIMEOUT "):
				t.Errorf("%s was answered %q", command, reply)
			case strings.Contains(reply, "outcome is unknown"): // sent on a connection that was just cut
			case !strings.Contains(reply, "NOAUTH Authentication required.") &&
				!strings.Contains(reply, "unauthenticated"):
				t.Errorf("%s was answered %q, which does not say why", command, reply)
			}
		}
	}
	locktest.RunParallel(t, commands)
	if err := admin.ConfigSet(t.Context(), "requirepass", "").Err(); err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, locktest.Soon, "Redis is asked again",
		func() bool { return a.Do("LOCK.CHECK", "held", "TOKEN", "1")[0] == ':' })
	locktest.Want(t, a.Do("LOCK.RELEASE", "held"), ":1")
}
