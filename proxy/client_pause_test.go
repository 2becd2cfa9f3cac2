package proxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

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
	admin, clients, last := dialAddr(t, addr), make([]*redistest.Client, len(cmds)), make([]string, len(cmds))
	for i, cmd := range cmds {
		clients[i] = dialAddr(t, addr)
		want(t, clients[i], "+PONG\r\n", "PING")
		all := strings.Split(cmd, "|")
		for _, before := range all[:len(all)-1] {
			do(t, clients[i], strings.Fields(before)...)
		}
		last[i] = all[len(all)-1]
	}
	want(t, admin, "+OK\r\n", "CLIENT", "PAUSE", fmt.Sprint(pauseLength.Milliseconds()), mode)
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
	do(t, admin, "SET", "until", "over")
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
	l := startLeash(t, []string{server.Addr})
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
		direct, got := inPause(t, server.Addr, pause.mode, pause.cmds), inPause(t, l.addr, pause.mode, pause.cmds)
		for cmd, want := range direct {
			if got[cmd] != want {
				t.Errorf("%s in PAUSE %s: got %v, want %v", cmd, pause.mode, got[cmd], want)
			}
		}
	}
	locks := inPause(t, l.addr, "WRITE", []string{"LOCK.ACQUIRE lock", "LOCK.INFO other"})
	if got := locks["LOCK.ACQUIRE lock"]; got.reply[0] != ':' || !got.held {
		t.Errorf("LOCK.ACQUIRE: %v", got)
	}
	if got := locks["LOCK.INFO other"]; got.held {
		t.Errorf("LOCK.INFO: %v", got)
	}
}

// paused returns a client that waits in a long pause.
func paused(t *testing.T, l *leash, admin *redistest.Client, cmds string) *redistest.Client {
	t.Helper()
	client := l.dial(t)
	want(t, admin, "+OK\r\n", "CLIENT", "PAUSE", "60000", "WRITE")
	if err := client.Send(cmds); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client waits", func() bool {
		return strings.Contains(listed(t, admin, addrOf(client))["flags"], "b")
	})
	return client
}

func TestClientUnpause(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	admin := l.dial(t)
	client := paused(t, l, admin, redistest.Command("PING")+redistest.Command("SET", "k", "2")+
		redistest.Command("GET", "k"))
	if got, err := client.Read(); got != "+PONG\r\n" {
		t.Fatalf("the reply before: %q, %v", got, err)
	}
	want(t, admin, "+OK\r\n", "CLIENT", "PAUSE", "1", "WRITE") // does not shorten the other
	want(t, admin, "$-1\r\n", "GET", "k")
	want(t, admin, "+OK\r\n", "CLIENT", "UNPAUSE")
	for _, reply := range []string{"+OK\r\n", "$1\r\n2\r\n"} {
		if got, err := client.Read(); got != reply {
			t.Fatalf("got %q, %v; want %q", got, err, reply)
		}
	}
}

// TestPauseInMulti checks that commands queued before the pause are answered before it.
func TestPauseInMulti(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	admin := l.dial(t)
	client := paused(t, l, admin, redistest.Command("MULTI")+redistest.Command("GET", "k")+
		redistest.Command("SET", "k", "1")+redistest.Command("EXEC"))
	for i, reply := range []string{"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n$-1\r\n+OK\r\n"} {
		if i == 2 {
			want(t, admin, "+OK\r\n", "CLIENT", "UNPAUSE")
		}
		if got, err := client.Read(); got != reply {
			t.Fatalf("got %q, %v; want %q", got, err, reply)
		}
	}
}

// TestPausedClientCloses checks that a paused command does not run after its client has closed.
func TestPausedClientCloses(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	admin := l.dial(t)
	client := paused(t, l, admin, redistest.Command("SET", "k", "3"))
	addr := addrOf(client)
	client.Close()
	eventually(t, "its end is seen", func() bool { return listed(t, admin, addr) == nil })
	killed := paused(t, l, admin, redistest.Command("SET", "k", "4"))
	want(t, admin, "+OK\r\n", "CLIENT", "KILL", addrOf(killed))
	eventually(t, "its end", func() bool { return l.clients() == 1 })
	want(t, admin, "+OK\r\n", "CLIENT", "UNPAUSE")
	want(t, admin, "$-1\r\n", "GET", "k")
}

// TestStopDoesNotWaitForPause checks that a stop does not wait for the end of a pause.
func TestStopDoesNotWaitForPause(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr}, func(o *options) {
		o.front.DrainTimeout = 100 * time.Millisecond
	})
	paused(t, l, l.dial(t), redistest.Command("SET", "k", "3"))
	start := time.Now()
	l.stop()
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

// TestLocksAreRenewedDuringPause checks that locks are renewed during a pause.
func TestLocksAreRenewedDuringPause(t *testing.T) {
	t.Parallel()
	l := startLeash(t, []string{redistest.Start(t).Addr}, watchdog(4*time.Second))
	admin := l.dial(t)
	if got := do(t, admin, "LOCK.ACQUIRE", "k"); got[0] != ':' {
		t.Fatal(got)
	}
	client := paused(t, l, admin, redistest.Command("SET", "other", "v"))
	time.Sleep(5 * time.Second) // longer than the lease
	if got := do(t, admin, "LOCK.TTL", "k"); got[0] != ':' || got == ":-2\r\n" {
		t.Errorf("LOCK.TTL: %q", got)
	}
	want(t, admin, ":1\r\n", "EXISTS", "k")
	client.Close()
}
