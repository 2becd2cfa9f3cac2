package links_test

import (
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

const pinRefusal = "-UPSTREAMDOWN clients already have --max-pinned connections to that node to themselves, " +
	"the command was not executed\r\n"

// TestBlockedClientsLeaveConnectionsForOthers checks that other clients are served when more
// clients block than Redis has connections for. A client that cannot block is told why.
func TestBlockedClientsLeaveConnectionsForOthers(t *testing.T) {
	t.Parallel()
	const blocked, limit = 150, 68 // 100 less the reserve
	s := redistest.Start(t, "--maxclients", "100")
	direct := redistest.Connect(t, s.Addr)
	direct.Want("+OK\r\n", "ACL", "SETUSER", "other", "on", ">pw", "+@all", "~*", "&*")
	l := proxytest.Start(t, []string{s.Addr})
	refused := make(chan string, blocked)
	for range blocked {
		c := l.Dial(t)
		c.Timeout = time.Minute
		if err := c.Send(redistest.Command("BLPOP", "none", "0")); err != nil {
			t.Fatal(err)
		}
		go func() { // ends with the connection
			if reply, err := c.Read(); err == nil {
				refused <- reply
			}
		}()
	}
	for range blocked - limit {
		select {
		case reply := <-refused:
			if reply != pinRefusal {
				t.Errorf("got %q, want %q", reply, pinRefusal)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("those over the limit are not answered")
		}
	}
	c, other, admin := l.Dial(t), l.Dial(t), l.Dial(t)
	c.Want(t, "$-1\r\n", "GET", "k")
	other.Want(t, "+OK\r\n", "AUTH", "other", "pw")
	other.Want(t, "+OK\r\n", "SET", "k", "v")
	other.Want(t, "+OK\r\n", "SELECT", "3")
	other.Want(t, "$-1\r\n", "GET", "k")
	if reply := c.Reply(t, "LOCK.ACQUIRE", "lock", "BLOCK", "0"); reply[0] != ':' {
		t.Errorf("a lock: %q", reply)
	}
	c.Want(t, "+OK\r\n", "MULTI") // Leash begins the transaction by itself
	c.Want(t, pinRefusal, "GET", "k")
	other.Want(t, pinRefusal, "WATCH", "k")
	if info := admin.Reply(t, "INFO", "leash"); !strings.Contains(info, "used=68,limit=68,refused=") {
		t.Errorf("INFO says %q", info)
	}
	direct.Want(":1\r\n", "RPUSH", "none", "x") // one goes, and one more may come
	proxytest.Eventually(t, "there is room", func() bool { return strings.Contains(admin.Reply(t, "INFO", "leash"), "used=67,") })
	other.Want(t, "+OK\r\n", "WATCH", "k")
}

// TestPinWhenRedisIsFull checks that a client that needs a pinned connection gets
// Redis's own refusal.
func TestPinWhenRedisIsFull(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := proxytest.Start(t, []string{s.Addr})
	c := l.Dial(t)
	c.Want(t, "+OK\r\n", "SET", "k", "v")
	redistest.Connect(t, s.Addr).Want("+OK\r\n", "CONFIG", "SET", "maxclients", "1")
	proxytest.Eventually(t, "it says why", func() bool {
		blocked := l.Dial(t)
		defer blocked.Close()
		blocked.Timeout = 5 * time.Second
		reply, err := blocked.Do("BLPOP", "none", "1")
		return err == nil && strings.Contains(reply, "Redis accepts no more connections (maxclients)")
	})
	c.Want(t, "$1\r\nv\r\n", "GET", "k")
}
