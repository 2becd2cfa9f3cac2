package proxy

import (
	"fmt"
	"strings"
	"testing"

	"leash/internal/redistest"
)

// aclServer starts a Redis with one user who has few rights and one who has all.
func aclServer(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Start(t, strings.Fields(
		"--user few on >pw ~few:* resetchannels +get +set +acl|whoami --user all on >pw ~* &* +@all")...)
}

// TestNoPermission checks that Redis's rights and error texts apply before any other check, also to
// commands that Leash answers.
func TestNoPermission(t *testing.T) {
	redis := aclServer(t)
	l := startLeash(t, []string{redis.Addr})
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
		direct, through := dialAddr(t, redis.Addr), l.dial(t)
		for _, c := range []*redistest.Client{direct, through} {
			want(t, c, "+OK\r\n", "AUTH", "few", "pw")
		}
		args := strings.Fields(line)
		got, want := do(t, through, args...), do(t, direct, args...)
		if got != want {
			t.Errorf("%s: got %.200q, want %.200q", line, got, want)
		}
	}
}

// TestDeletedUserIsDisconnected checks that Leash ends all sessions of a user when Redis ends the
// user's connections. Idle sessions and sessions in other lanes end too. Sessions of other users go
// on.
func TestDeletedUserIsDisconnected(t *testing.T) {
	redis := aclServer(t)
	l := startLeash(t, []string{redis.Addr})
	direct := dialAddr(t, redis.Addr)
	var gone []*redistest.Client
	for i := range 6 {
		c := l.dial(t)
		want(t, c, "+OK\r\n", "AUTH", "few", "pw")
		if i%2 == 0 {
			do(t, c, "HELLO", "3")
		}
		want(t, c, "+OK\r\n", "SET", fmt.Sprint("few:", i), "1")
		gone = append(gone, c)
	}
	other := l.dial(t)
	want(t, other, "+OK\r\n", "AUTH", "all", "pw")
	anonymous := l.dial(t)
	want(t, anonymous, "+OK\r\n", "SET", "a", "1")
	want(t, direct, ":1\r\n", "ACL", "DELUSER", "few")
	for i, c := range gone {
		if err := c.AwaitEnd(); err != nil {
			t.Errorf("session %d of the deleted user: %v", i, err)
		}
	}
	want(t, other, "$1\r\n1\r\n", "GET", "a")
	want(t, anonymous, "$1\r\n1\r\n", "GET", "a")
	if got := do(t, l.dial(t), "AUTH", "few", "pw"); !strings.HasPrefix(got, "-WRONGPASS ") {
		t.Errorf("AUTH: %q", got)
	}
}

// TestDeletedUserWithOnlyLocks checks that a deleted user's sessions end even if they sent only
// lock commands. Those go to Redis as Leash's own user. Holds and waiters end with the sessions.
func TestDeletedUserWithOnlyLocks(t *testing.T) {
	t.Parallel()
	bothUpstreams(t, func(t *testing.T, l *leash, masters []*redistest.Server) {
		for _, redis := range masters {
			do(t, dialAddr(t, redis.Addr), "ACL", "SETUSER", "locker", "on", ">pw", "~*", "&*", "+@all")
		}
		holder, waiter, late, other := l.dial(t), l.dial(t), l.dial(t), l.dial(t)
		for _, c := range []*redistest.Client{holder, waiter, late} {
			want(t, c, "+OK\r\n", "AUTH", "locker", "pw")
		}
		token(t, holder, "theirs")
		mine := token(t, other, "ours")
		if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "ours", "BLOCK", "0")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a client waits", func() bool {
			return strings.Contains(do(t, other, "INFO", "leash"), "leash_waiters:1\r\n")
		})
		for _, redis := range masters {
			do(t, dialAddr(t, redis.Addr), "ACL", "DELUSER", "locker")
		}
		for _, c := range []*redistest.Client{holder, waiter, late} {
			if err := c.AwaitEnd(); err != nil {
				t.Errorf("a session of the deleted user: %v", err)
			}
		}
		want(t, other, ":1\r\n", "LOCK.RELEASE", "ours", "TOKEN", mine)
		token(t, other, "ours", "BLOCK", "5000") // the waiter may yet be leaving
	})
}

// TestDeletedUserWithOnlyBlockedCommands checks that a deleted user's sessions end when their only
// connection to Redis was pinned for a blocking command.
func TestDeletedUserWithOnlyBlockedCommands(t *testing.T) {
	t.Parallel()
	bothUpstreams(t, func(t *testing.T, l *leash, masters []*redistest.Server) {
		for _, redis := range masters {
			do(t, dialAddr(t, redis.Addr), "ACL", "SETUSER", "blocker", "on", ">pw", "~*", "&*", "+@all")
		}
		clients := []*redistest.Client{l.dial(t), l.dial(t), l.dial(t)}
		for i, command := range []string{"BLPOP list 0", "XREAD BLOCK 0 STREAMS stream $", "BZPOPMIN zset 0"} {
			want(t, clients[i], "+OK\r\n", "AUTH", "blocker", "pw")
			if err := clients[i].Send(redistest.Command(strings.Fields(command)...)); err != nil {
				t.Fatal(err)
			}
		}
		blocked := func() (n int) {
			for _, redis := range masters {
				n += strings.Count(do(t, dialAddr(t, redis.Addr), "CLIENT", "LIST"), "flags=b ")
			}
			return n
		}
		eventually(t, "all of them block", func() bool { return blocked() == len(clients) })
		for _, redis := range masters {
			do(t, dialAddr(t, redis.Addr), "ACL", "DELUSER", "blocker")
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
	l := startLeash(t, []string{redis.Addr})
	c := l.dial(t)
	want(t, c, "+OK\r\n", "AUTH", "locker", "pw")
	want(t, dialAddr(t, redis.Addr), ":1\r\n", "ACL", "DELUSER", "locker")
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
	redis := aclServer(t)
	l := startLeash(t, []string{redis.Addr})
	direct, c := dialAddr(t, redis.Addr), l.dial(t)
	want(t, c, "+OK\r\n", "AUTH", "few", "pw")
	want(t, c, "+OK\r\n", "SET", "few:a", "1")
	want(t, direct, "+OK\r\n", "ACL", "SETUSER", "few", "-set", "+ping")
	want(t, c, "-NOPERM this user has no permissions to run the 'set' command\r\n", "SET", "few:a", "2")
	eventually(t, "PING is allowed", func() bool { return do(t, c, "PING") == "+PONG\r\n" })
	want(t, direct, "+OK\r\n", "ACL", "SETUSER", "few", "resetpass", ">new")
	want(t, c, "$1\r\n1\r\n", "GET", "few:a")
	want(t, direct, ":1\r\n", "CLIENT", "KILL", "USER", "few")
	if err := c.AwaitEnd(); err != nil {
		t.Error(err)
	}
	again := l.dial(t)
	want(t, again, "+OK\r\n", "AUTH", "few", "new")
	want(t, again, "$1\r\n1\r\n", "GET", "few:a")
}

// TestUserChangesPassword checks that a session with the new password keeps the lane open for
// sessions that used the old one.
func TestUserChangesPassword(t *testing.T) {
	redis := aclServer(t)
	l := startLeash(t, []string{redis.Addr})
	direct, old := dialAddr(t, redis.Addr), l.dial(t)
	want(t, old, "+OK\r\n", "AUTH", "few", "pw")
	want(t, old, "+OK\r\n", "SET", "few:a", "1")
	want(t, direct, "+OK\r\n", "ACL", "SETUSER", "few", ">new")
	fresh := l.dial(t)
	want(t, fresh, "+OK\r\n", "AUTH", "few", "new")
	want(t, direct, "+OK\r\n", "ACL", "SETUSER", "few", "<pw")
	want(t, direct, ":1\r\n", "CLIENT", "KILL", "USER", "few")
	for _, c := range []*redistest.Client{old, fresh} {
		eventually(t, "it goes on", func() bool { return do(t, c, "GET", "few:a") == "$1\r\n1\r\n" })
	}
}
