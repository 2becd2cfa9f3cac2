package rights_test

import (
	"fmt"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestNoPermission checks that Redis's rights and error texts apply before any other check, also to
// commands that Leash answers.
func TestNoPermission(t *testing.T) {
	redis := proxytest.ACLServer(t)
	l := proxytest.Start(t, []string{redis.Addr})
	for _, line := range []string{
		"PING", "PING a b", "ECHO a", "CLIENT ID", "CLIENT SETNAME a", "CLIENT GETNAME", "CLIENT LIST",
		"CLIENT INFO", "CLIENT KILL ID 1", "CLIENT PAUSE 1",
		"CLIENT NOPE", "CLIENT REPLY ON", "CLIENT UNBLOCK 1", "CLIENT NO-EVICT ON", "SELECT 1", "SELECT x",
		"DBSIZE", "KEYS *", "SCAN 0", "RANDOMKEY", "FLUSHALL",
		"GET few:a", "GET b", "SET b 1", "MGET few:a b", "DEL few:a", "UNLINK few:a b", "INFO",
		"CONFIG GET maxmemory", "TIME", "ROLE", "LASTSAVE",
		"COMMAND COUNT", "CLUSTER INFO", "READONLY", "WAIT 0 0", "MULTI", "EXEC", "WATCH few:a", "UNWATCH",
		"BLPOP few:a 1", "XREAD STREAMS few:a 0",
		"SUBSCRIBE c", "PSUBSCRIBE c", "PUBLISH c m", "SPUBLISH c m", "PUBSUB CHANNELS", "EVAL x 0",
		"SCRIPT LOAD x", "SCRIPT EXISTS x", "FUNCTION LIST",
		"ACL WHOAMI", "ACL LIST", "SLOWLOG GET", "LATENCY LATEST", "MEMORY USAGE few:a", "OBJECT ENCODING few:a",
		"SWAPDB 0 1", "MONITOR", "NOPE",
	} {
		direct, through := proxytest.Dial(t, redis.Addr), l.Dial(t)
		for _, c := range []*redistest.Client{direct, through} {
			c.Want(t, "+OK\r\n", "AUTH", "few", "pw")
		}
		args := strings.Fields(line)
		got, want := through.Reply(t, args...), direct.Reply(t, args...)
		if got != want {
			t.Errorf("%s: got %.200q, want %.200q", line, got, want)
		}
	}
}

// TestDeletedUserIsDisconnected checks that Leash ends all sessions of a user when Redis ends the
// user's connections. Idle sessions and sessions in other lanes end too. Sessions of other users go
// on.
func TestDeletedUserIsDisconnected(t *testing.T) {
	redis := proxytest.ACLServer(t)
	l := proxytest.Start(t, []string{redis.Addr})
	direct := proxytest.Dial(t, redis.Addr)
	var gone []*redistest.Client
	for i := range 6 {
		c := l.Dial(t)
		c.Want(t, "+OK\r\n", "AUTH", "few", "pw")
		if i%2 == 0 {
			c.Reply(t, "HELLO", "3")
		}
		c.Want(t, "+OK\r\n", "SET", fmt.Sprint("few:", i), "1")
		gone = append(gone, c)
	}
	other := l.Dial(t)
	other.Want(t, "+OK\r\n", "AUTH", "all", "pw")
	anonymous := l.Dial(t)
	anonymous.Want(t, "+OK\r\n", "SET", "a", "1")
	direct.Want(t, ":1\r\n", "ACL", "DELUSER", "few")
	for i, c := range gone {
		if err := c.AwaitEnd(); err != nil {
			t.Errorf("session %d of the deleted user: %v", i, err)
		}
	}
	other.Want(t, "$1\r\n1\r\n", "GET", "a")
	anonymous.Want(t, "$1\r\n1\r\n", "GET", "a")
	if got := l.Dial(t).Reply(t, "AUTH", "few", "pw"); !strings.HasPrefix(got, "-WRONGPASS ") {
		t.Errorf("AUTH: %q", got)
	}
}

// TestDeletedUserWithOnlyLocks checks that a deleted user's sessions end even if they sent only
// lock commands. Those go to Redis as Leash's own user. Holds and waiters end with the sessions.
func TestDeletedUserWithOnlyLocks(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, masters []*redistest.Server) {
		for _, redis := range masters {
			proxytest.Dial(t, redis.Addr).Reply(t, "ACL", "SETUSER", "locker", "on", ">pw", "~*", "&*", "+@all")
		}
		holder, waiter, late, other := l.Dial(t), l.Dial(t), l.Dial(t), l.Dial(t)
		for _, c := range []*redistest.Client{holder, waiter, late} {
			c.Want(t, "+OK\r\n", "AUTH", "locker", "pw")
		}
		proxytest.Token(t, holder, "theirs")
		mine := proxytest.Token(t, other, "ours")
		if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "ours", "BLOCK", "0")); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "a client waits", func() bool {
			return strings.Contains(other.Reply(t, "INFO", "leash"), "leash_waiters:1\r\n")
		})
		for _, redis := range masters {
			proxytest.Dial(t, redis.Addr).Reply(t, "ACL", "DELUSER", "locker")
		}
		for _, c := range []*redistest.Client{holder, waiter, late} {
			if err := c.AwaitEnd(); err != nil {
				t.Errorf("a session of the deleted user: %v", err)
			}
		}
		other.Want(t, ":1\r\n", "LOCK.RELEASE", "ours", "TOKEN", mine)
		proxytest.Token(t, other, "ours", "BLOCK", "5000") // the waiter may yet be leaving
	})
}

// TestDeletedUserWithOnlyBlockedCommands checks that a deleted user's sessions end when their only
// connection to Redis was pinned for a blocking command.
func TestDeletedUserWithOnlyBlockedCommands(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, masters []*redistest.Server) {
		for _, redis := range masters {
			proxytest.Dial(t, redis.Addr).Reply(t, "ACL", "SETUSER", "blocker", "on", ">pw", "~*", "&*", "+@all")
		}
		clients := []*redistest.Client{l.Dial(t), l.Dial(t), l.Dial(t)}
		for i, command := range []string{"BLPOP list 0", "XREAD BLOCK 0 STREAMS stream $", "BZPOPMIN zset 0"} {
			clients[i].Want(t, "+OK\r\n", "AUTH", "blocker", "pw")
			if err := clients[i].Send(redistest.Command(strings.Fields(command)...)); err != nil {
				t.Fatal(err)
			}
		}
		blocked := func() (n int) {
			for _, redis := range masters {
				n += strings.Count(proxytest.Dial(t, redis.Addr).Reply(t, "CLIENT", "LIST"), "flags=b ")
			}
			return n
		}
		proxytest.Eventually(t, "all of them block", func() bool { return blocked() == len(clients) })
		for _, redis := range masters {
			proxytest.Dial(t, redis.Addr).Reply(t, "ACL", "DELUSER", "blocker")
		}
		for i, c := range clients {
			err := c.AwaitEnd()
			// an error for the blocked command may come first
			if err != nil && strings.Contains(err.Error(), "UPSTREAMLOST") {
				err = c.AwaitEnd()
			}
			if err != nil {
				t.Errorf("session %d of the deleted user: %v", i, err)
			}
		}
	})
}

// TestUserDeletedBeforeFirstLock checks that Leash notices a deleted user when it asks Redis for
// the user's rights.
func TestUserDeletedBeforeFirstLock(t *testing.T) {
	redis := redistest.Start(t, strings.Fields("--user locker on >pw ~* &* +@all")...)
	l := proxytest.Start(t, []string{redis.Addr})
	c := l.Dial(t)
	c.Want(t, "+OK\r\n", "AUTH", "locker", "pw")
	proxytest.Dial(t, redis.Addr).Want(t, ":1\r\n", "ACL", "DELUSER", "locker")
	if err := c.Send(redistest.Command("LOCK.ACQUIRE", "k")); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitEnd(); err != nil {
		t.Errorf("a session of the deleted user: %v", err)
	}
}

// TestUserRightsAndPasswordChange checks that a right that is taken away is gone at once. A changed
// password ends a session only when its connection is dialled again.
func TestUserRightsAndPasswordChange(t *testing.T) {
	redis := proxytest.ACLServer(t)
	l := proxytest.Start(t, []string{redis.Addr})
	direct, c := proxytest.Dial(t, redis.Addr), l.Dial(t)
	c.Want(t, "+OK\r\n", "AUTH", "few", "pw")
	c.Want(t, "+OK\r\n", "SET", "few:a", "1")
	direct.Want(t, "+OK\r\n", "ACL", "SETUSER", "few", "-set", "+ping")
	c.Want(t, "-NOPERM this user has no permissions to run the 'set' command\r\n", "SET", "few:a", "2")
	proxytest.Eventually(t, "PING is allowed", func() bool { return c.Reply(t, "PING") == "+PONG\r\n" })
	direct.Want(t, "+OK\r\n", "ACL", "SETUSER", "few", "resetpass", ">new")
	c.Want(t, "$1\r\n1\r\n", "GET", "few:a")
	direct.Want(t, ":1\r\n", "CLIENT", "KILL", "USER", "few")
	if err := c.AwaitEnd(); err != nil {
		t.Error(err)
	}
	again := l.Dial(t)
	again.Want(t, "+OK\r\n", "AUTH", "few", "new")
	again.Want(t, "$1\r\n1\r\n", "GET", "few:a")
}

// TestUserChangesPassword checks that a session with the new password keeps the lane open for
// sessions that used the old one.
func TestUserChangesPassword(t *testing.T) {
	redis := proxytest.ACLServer(t)
	l := proxytest.Start(t, []string{redis.Addr})
	direct, old := proxytest.Dial(t, redis.Addr), l.Dial(t)
	old.Want(t, "+OK\r\n", "AUTH", "few", "pw")
	old.Want(t, "+OK\r\n", "SET", "few:a", "1")
	direct.Want(t, "+OK\r\n", "ACL", "SETUSER", "few", ">new")
	fresh := l.Dial(t)
	fresh.Want(t, "+OK\r\n", "AUTH", "few", "new")
	direct.Want(t, "+OK\r\n", "ACL", "SETUSER", "few", "<pw")
	direct.Want(t, ":1\r\n", "CLIENT", "KILL", "USER", "few")
	for _, c := range []*redistest.Client{old, fresh} {
		proxytest.Eventually(t, "it goes on", func() bool { return c.Reply(t, "GET", "few:a") == "$1\r\n1\r\n" })
	}
}
