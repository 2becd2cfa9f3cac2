package clients_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// pauseLength is long enough to tell a paused reply from one that a busy machine delayed.
const pauseLength = 4 * time.Second

// pausedReply is a reply, and whether the pause delayed it.
type pausedReply struct {
	reply string
	held  bool
}

// inPause sends each command during the same pause, from a client of its own. Of commands with "|"
// between them, it sends all but the last before the pause.
func inPause(t *testing.T, addr, mode string, cmds []string) map[string]pausedReply {
	t.Helper()
	admin, clients, last := proxytest.Dial(t, addr), make([]*redistest.Client, len(cmds)), make([]string, len(cmds))
	for i, cmd := range cmds {
		clients[i] = proxytest.Dial(t, addr)
		clients[i].Want(t, "+PONG\r\n", "PING")
		all := strings.Split(cmd, "|")
		for _, before := range all[:len(all)-1] {
			clients[i].Reply(t, strings.Fields(before)...)
		}
		last[i] = all[len(all)-1]
	}
	admin.Want(t, "+OK\r\n", "CLIENT", "PAUSE", fmt.Sprint(pauseLength.Milliseconds()), mode)
	start := time.Now()
	replies := make([]pausedReply, len(cmds))
	var running sync.WaitGroup
	for i, c := range clients {
		running.Go(func() {
			reply, err := c.Do(strings.Fields(last[i])...)
			if err != nil {
				t.Errorf("%s: %v", cmds[i], err)
			}
			replies[i] = pausedReply{reply, time.Since(start) > pauseLength/2}
			c.Close()
		})
	}
	running.Wait()
	admin.Reply(t, "SET", "until", "over")
	all := make(map[string]pausedReply)
	for i, cmd := range cmds {
		all[cmd] = replies[i]
	}
	return all
}

// TestClientPause checks that CLIENT PAUSE delays the same commands as in Redis.
func TestClientPause(t *testing.T) {
	t.Parallel()
	redistest.TakesLong(t)
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	for _, pause := range []struct {
		mode string
		cmds []string
	}{
		{"WRITE", []string{"GET none", "SET k 1", "PUBLISH c m", "PFCOUNT h", "EVAL return(1) 0", "EVAL_RO return(1) 0",
			"SORT l", "NOSUCH", "GET", "MGET a b", "MULTI|GET none|EXEC", "MULTI|SET x 1|EXEC", "MULTI|EVAL return(1) 0|EXEC"}},
		{"WRITE", []string{"CLIENT UNPAUSE"}},
		{"ALL", []string{"GET none", "SET k 1", "NOSUCH", "GET", "PING"}},
		{"ALL", []string{"CLIENT UNPAUSE"}},
	} {
		direct, got := inPause(t, server.Addr, pause.mode, pause.cmds), inPause(t, l.Addr, pause.mode, pause.cmds)
		for cmd, want := range direct {
			if got[cmd] != want {
				t.Errorf("%s in PAUSE %s: got %v, want %v", cmd, pause.mode, got[cmd], want)
			}
		}
	}
	locks := inPause(t, l.Addr, "WRITE", []string{"LOCK.ACQUIRE lock", "LOCK.INFO other"})
	if got := locks["LOCK.ACQUIRE lock"]; got.reply[0] != ':' || !got.held {
		t.Errorf("LOCK.ACQUIRE: %v", got)
	}
	if got := locks["LOCK.INFO other"]; got.held {
		t.Errorf("LOCK.INFO: %v", got)
	}
}

// paused returns a client that waits in a long pause.
func paused(t *testing.T, l *proxytest.Leash, admin *redistest.Client, cmds string) *redistest.Client {
	t.Helper()
	client := l.Dial(t)
	admin.Want(t, "+OK\r\n", "CLIENT", "PAUSE", "60000", "WRITE")
	if err := client.Send(cmds); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "the client waits", func() bool {
		return strings.Contains(proxytest.Listed(t, admin, proxytest.AddrOf(client))["flags"], "b")
	})
	return client
}

func TestClientUnpause(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	admin := l.Dial(t)
	client := paused(t, l, admin, redistest.Command("PING")+redistest.Command("SET", "k", "2")+
		redistest.Command("GET", "k"))
	if got, err := client.Read(); got != "+PONG\r\n" {
		t.Fatalf("the reply before: %q, %v", got, err)
	}
	admin.Want(t, "+OK\r\n", "CLIENT", "PAUSE", "1", "WRITE") // does not shorten the other
	admin.Want(t, "$-1\r\n", "GET", "k")
	admin.Want(t, "+OK\r\n", "CLIENT", "UNPAUSE")
	for _, reply := range []string{"+OK\r\n", "$1\r\n2\r\n"} {
		if got, err := client.Read(); got != reply {
			t.Fatalf("got %q, %v; want %q", got, err, reply)
		}
	}
}

// TestPauseInMulti checks that commands queued before the pause are answered before it.
func TestPauseInMulti(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	admin := l.Dial(t)
	client := paused(t, l, admin, redistest.Command("MULTI")+redistest.Command("GET", "k")+
		redistest.Command("SET", "k", "1")+redistest.Command("EXEC"))
	for i, reply := range []string{"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n$-1\r\n+OK\r\n"} {
		if i == 2 {
			admin.Want(t, "+OK\r\n", "CLIENT", "UNPAUSE")
		}
		if got, err := client.Read(); got != reply {
			t.Fatalf("got %q, %v; want %q", got, err, reply)
		}
	}
}

// TestPausedClientCloses checks that a paused command does not run after its client has closed.
func TestPausedClientCloses(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	admin := l.Dial(t)
	client := paused(t, l, admin, redistest.Command("SET", "k", "3"))
	addr := proxytest.AddrOf(client)
	client.Close()
	proxytest.Eventually(t, "its end is seen", func() bool { return proxytest.Listed(t, admin, addr) == nil })
	killed := paused(t, l, admin, redistest.Command("SET", "k", "4"))
	admin.Want(t, "+OK\r\n", "CLIENT", "KILL", proxytest.AddrOf(killed))
	proxytest.Eventually(t, "its end", func() bool { return l.Clients() == 1 })
	admin.Want(t, "+OK\r\n", "CLIENT", "UNPAUSE")
	admin.Want(t, "$-1\r\n", "GET", "k")
}

// TestStopDoesNotWaitForPause checks that a stop does not wait for the end of a pause.
func TestStopDoesNotWaitForPause(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr}, func(o *proxytest.Options) {
		o.Front.DrainTimeout = 100 * time.Millisecond
	})
	paused(t, l, l.Dial(t), redistest.Command("SET", "k", "3"))
	start := time.Now()
	l.Stop()
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

// TestLocksAreRenewedDuringPause checks that locks are renewed during a pause.
func TestLocksAreRenewedDuringPause(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr}, proxytest.Watchdog(4*time.Second))
	admin := l.Dial(t)
	if got := admin.Reply(t, "LOCK.ACQUIRE", "k"); got[0] != ':' {
		t.Fatal(got)
	}
	client := paused(t, l, admin, redistest.Command("SET", "other", "v"))
	time.Sleep(5 * time.Second) // longer than the lease
	if got := admin.Reply(t, "LOCK.TTL", "k"); got[0] != ':' || got == ":-2\r\n" {
		t.Errorf("LOCK.TTL: %q", got)
	}
	admin.Want(t, ":1\r\n", "EXISTS", "k")
	client.Close()
}
