package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// pauseLength is long enough to tell a paused reply from one that a busy machine delayed.
const pauseLength = time.Second

// heldBack sends a command during a pause. It returns the reply and whether the pause delayed it.
func heldBack(t *testing.T, addr, mode, cmd string) (reply string, held bool) {
	t.Helper()
	admin, client := dialAddr(t, addr), dialAddr(t, addr)
	defer admin.Close()
	defer client.Close()
	want(t, client, "+PONG\r\n", "PING")
	want(t, admin, "+OK\r\n", "CLIENT", "PAUSE", fmt.Sprint(pauseLength.Milliseconds()), mode)
	start := time.Now()
	reply = do(t, client, strings.Fields(cmd)...)
	took := time.Since(start)
	do(t, client, "SET", "until", "over")
	return reply, took > pauseLength*2/3
}

// execHeldBack is heldBack for the EXEC of a transaction that was queued before the pause.
func execHeldBack(t *testing.T, addr, queued string) (reply string, held bool) {
	t.Helper()
	admin, client := dialAddr(t, addr), dialAddr(t, addr)
	defer admin.Close()
	defer client.Close()
	want(t, client, "+OK\r\n", "MULTI")
	want(t, client, "+QUEUED\r\n", strings.Fields(queued)...)
	want(t, admin, "+OK\r\n", "CLIENT", "PAUSE", fmt.Sprint(pauseLength.Milliseconds()), "WRITE")
	start := time.Now()
	reply = do(t, client, "EXEC")
	took := time.Since(start)
	do(t, client, "SET", "until", "over")
	return reply, took > pauseLength*2/3
}

// TestClientPause checks that CLIENT PAUSE delays the same commands as in Redis.
func TestClientPause(t *testing.T) {
	t.Parallel()
	redistest.TakesLong(t)
	server := redistest.Start(t)
	l := startLeash(t, []string{server.Addr})
	for mode, cmds := range map[string][]string{
		"WRITE": {"GET k", "SET k 1", "PUBLISH c m", "PFCOUNT h", "EVAL return(1) 0", "EVAL_RO return(1) 0",
			"SORT l", "NOSUCH", "GET", "MGET a b", "CLIENT UNPAUSE"},
		"ALL": {"GET k", "SET k 1", "NOSUCH", "GET", "PING", "CLIENT UNPAUSE"},
	} {
		for _, cmd := range cmds {
			reply, held := heldBack(t, server.Addr, mode, cmd)
			if got, gotHeld := heldBack(t, l.addr, mode, cmd); got != reply || gotHeld != held {
				t.Errorf("%s in PAUSE %s: got %q, held %v; want %q, %v", cmd, mode, got, gotHeld, reply, held)
			}
		}
	}
	for _, queued := range []string{"GET k", "SET k 1", "EVAL return(1) 0"} {
		reply, held := execHeldBack(t, server.Addr, queued)
		if got, gotHeld := execHeldBack(t, l.addr, queued); got != reply || gotHeld != held {
			t.Errorf("EXEC of %s in a pause: got %q, held %v; want %q, %v", queued, got, gotHeld, reply, held)
		}
	}
	if got, held := heldBack(t, l.addr, "WRITE", "LOCK.ACQUIRE lock"); got[0] != ':' || !held {
		t.Errorf("LOCK.ACQUIRE: %q, held %v", got, held)
	}
	if got, held := heldBack(t, l.addr, "WRITE", "LOCK.INFO lock"); held {
		t.Errorf("LOCK.INFO: %q, held %v", got, held)
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
	eventually(t, "its end", func() bool { return l.sessionCount() == 1 })
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
	l := startLeash(t, []string{redistest.Start(t).Addr}, func(o *options) { o.locks.WatchdogTimeout = time.Second })
	admin := l.dial(t)
	if got := do(t, admin, "LOCK.ACQUIRE", "k"); got[0] != ':' {
		t.Fatal(got)
	}
	client := paused(t, l, admin, redistest.Command("SET", "other", "v"))
	time.Sleep(1500 * time.Millisecond) // longer than the lease
	if got := do(t, admin, "LOCK.TTL", "k"); got[0] != ':' || got == ":-2\r\n" {
		t.Errorf("LOCK.TTL: %q", got)
	}
	want(t, admin, ":1\r\n", "EXISTS", "k")
	client.Close()
}
