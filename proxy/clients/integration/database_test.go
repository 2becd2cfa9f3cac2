package clients_test

import (
	"fmt"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// conversation runs command lines on one connection and returns all replies.
func conversation(t *testing.T, addr string, lines ...string) string {
	t.Helper()
	c := proxytest.Dial(t, addr)
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "%s\n%q\n", line, c.Reply(t, strings.Fields(line)...))
	}
	return b.String()
}

// TestSelect compares sessions that change databases with a plain Redis.
func TestSelect(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	for name, lines := range map[string][]string{
		"databases": {"SET a 0", "SELECT 3", "GET a", "SET a 3", "DBSIZE", "SELECT 0", "GET a", "SELECT 3", "GET a",
			"DEL a", "SELECT 00", "GET a", "SELECT 0", "DEL a"},
		"errors": {"SELECT", "SELECT 1 2", "SELECT x", "SELECT -1", "SELECT 16", "SELECT 2147483647",
			"SELECT 2147483648", "SELECT -2147483649", "SELECT 99999999999999999999", "SELECT +1", "SELECT 01",
			"DBSIZE"},
		"reset":   {"SELECT 3", "SET b 3", "RESET", "GET b", "SELECT 3", "DEL b"},
		"auth":    {"SELECT 3", "SET c 3", "AUTH default x", "GET c", "DEL c"},
		"refused": {"SELECT 3", "SET d 3", "AUTH nobody x", "GET d", "SELECT 99", "GET d", "DEL d"},
	} {
		if got, want := conversation(t, l.Addr, lines...), conversation(t, redis.Addr, lines...); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	both := l.Dial(t)
	both.Reply(t, "SELECT", "3")
	both.Reply(t, "HELLO", "3")
	both.Want(t, "+OK\r\n", "SET", "e", "3")
	both.Want(t, "%0\r\n", "HGETALL", "none")
	l.Dial(t).Want(t, "$-1\r\n", "GET", "e")
}

// TestOtherCommandsWithDatabases covers other commands that change the database or depend on it.
func TestOtherCommandsWithDatabases(t *testing.T) {
	redis := redistest.Start(t, strings.Fields("--user few on >pw ~* +@all -select --user all on >pw ~* &* +@all")...)
	l := proxytest.Start(t, []string{redis.Addr})
	for name, lines := range map[string][]string{
		"multi": {"MULTI", "SELECT 3", "SET a 1", "EXEC", "GET a", "DBSIZE", "SELECT 0", "GET a", "SELECT 3",
			"DEL a"},
		"discard": {"MULTI", "SELECT 3", "DISCARD", "SET a 1", "SELECT 3", "GET a", "SELECT 0", "DEL a"},
		"watch": {"WATCH a", "SELECT 3", "MULTI", "SET a 1", "EXEC", "GET a", "SELECT 0", "GET a", "SELECT 3",
			"DEL a"},
		"watch2": {"SELECT 3", "WATCH a", "SELECT 0", "MULTI", "SET a 1", "EXEC", "GET a", "DEL a"},
		"watchsel": {"WATCH a", "SELECT 3", "SET a 1", "SELECT 0", "MULTI", "SET a 2", "EXEC", "DEL a",
			"SELECT 3", "DEL a"},
		"watchauth": {"WATCH a", "AUTH all pw", "MULTI", "SET a 2", "EXEC", "DEL a"},
		"multibad":  {"MULTI", "SELECT 99", "SET a 1", "EXEC", "GET a", "DEL a"},
		"multiauth": {"MULTI", "AUTH few pw", "EXEC", "SELECT 3", "ACL WHOAMI"},
		"multiboth": {"MULTI", "SELECT 3", "AUTH few pw", "EXEC", "SET a 1", "SELECT 0", "ACL WHOAMI", "DEL a"},
		"block":     {"SELECT 3", "RPUSH l a", "BLPOP l 0", "SELECT 0", "EXISTS l"},
		"move":      {"SET m 1", "MOVE m 3", "SELECT 3", "GET m", "DEL m"},
		"copy":      {"SET m 1", "COPY m m DB 3", "DEL m", "SELECT 3", "GET m", "DEL m"},
		"scan":      {"SELECT 3", "SET s 1", "SCAN 0", "KEYS *", "RANDOMKEY", "DBSIZE", "FLUSHDB", "DBSIZE"},
		"swap":      {"SET w 0", "SWAPDB 0 3", "GET w", "SELECT 3", "GET w", "DEL w"},
		"swapself":  {"SELECT 3", "SET w 0", "SWAPDB 0 3", "GET w", "SELECT 0", "GET w", "DEL w"},
		"hello": {"SELECT 3", "SET h 1", "HELLO 3 AUTH all pw SETNAME x", "GET h", "DEL h", "RESET", "SET h 2",
			"SELECT 3", "GET h", "SELECT 0", "DEL h"},
		"script":     {"SELECT 3", "SET x 1", "EVAL return(redis.call('get','x')) 0", "DEL x"},
		"replyoff":   {"SELECT 3", "SET x 1", "WAIT 0 0", "DEL x"},
		"multireset": {"SELECT 3", "MULTI", "SET a 1", "RESET", "GET a", "SELECT 3", "GET a"},
	} {
		if got, want := withoutID(conversation(t, l.Addr, lines...)),
			withoutID(conversation(t, redis.Addr, lines...)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestSelectInPipeline checks that commands around a pipelined SELECT run in the right database.
func TestSelectInPipeline(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	var raw, expected strings.Builder
	counts := make([]int, 7)
	for i := range 50 {
		db := i % len(counts)
		raw.WriteString(redistest.Command("SELECT", fmt.Sprint(db)))
		expected.WriteString("+OK\r\n")
		for range 20 {
			raw.WriteString(redistest.Command("INCR", "n"))
			counts[db]++
			fmt.Fprintf(&expected, ":%d\r\n", counts[db])
		}
	}
	if got := proxytest.Exchange(t, l.Addr, raw.String()); got != expected.String() {
		t.Errorf("got %.300q, want %.300q", got, expected.String())
	}
}

// TestSelectSharesConnections checks that many clients of one database share a connection, and that
// it is closed after the last one leaves.
func TestSelectSharesConnections(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	direct := proxytest.Dial(t, redis.Addr)
	received := func() (n int) {
		fmt.Sscan(proxytest.InfoLine(direct.Reply(t, "INFO", "stats"), "total_connections_received"), &n)
		return n
	}
	before := received()
	var clients []*redistest.Client
	for range 300 {
		c := l.Dial(t)
		c.Want(t, "+OK\r\n", "SELECT", "5")
		c.Want(t, "+OK\r\n", "SET", "k", "v")
		clients = append(clients, c)
	}
	if n := received() - before; n > 5 { // the link's, and some for liveness
		t.Errorf("%d connections for 300 clients of one database", n)
	}
	for _, c := range clients {
		c.Close()
	}
	proxytest.Eventually(t, "the link of database 5 is closed", func() bool {
		return !strings.Contains(direct.Reply(t, "CLIENT", "LIST"), " db=5 ")
	})
}

// TestSelectRights checks that SELECT needs the user's rights, checked in Redis's order.
func TestSelectRights(t *testing.T) {
	redis := redistest.Start(t, strings.Fields("--user free on >pw ~* +@all --user bound on >pw ~* +@all -select")...)
	proxytest.Dial(t, redis.Addr).Want(t, "+OK\r\n", "CONFIG", "SET", "requirepass", "secret")
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Upstream.Password = "secret" })
	for name, lines := range map[string][]string{
		"nobody": {"SELECT 1", "SELECT x", "SELECT", "SELECT 99", "SELECT 0", "GET a"},
		"bound":  {"AUTH bound pw", "SELECT 1", "SELECT x", "SELECT 99", "SELECT 0", "GET a"},
		"handed": {"AUTH free pw", "SELECT 4", "SET f 1", "AUTH bound pw", "GET f", "SELECT 4", "GET f", "HELLO 2",
			"GET f", "DEL f"},
	} {
		if got, want := withoutID(conversation(t, l.Addr, lines...)),
			withoutID(conversation(t, redis.Addr, lines...)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestSelectRightTakenAway checks that a session stays in its database after its user loses the
// right to SELECT, even on a new connection.
func TestSelectRightTakenAway(t *testing.T) {
	redis := redistest.Start(t, strings.Fields("--user u on >pw ~* +@all")...)
	l := proxytest.Start(t, []string{redis.Addr})
	direct, client := proxytest.Dial(t, redis.Addr), l.Dial(t)
	client.Want(t, "+OK\r\n", "AUTH", "u", "pw")
	client.Want(t, "+OK\r\n", "SELECT", "2")
	client.Want(t, "+OK\r\n", "SET", "k", "v")
	direct.Want(t, "+OK\r\n", "ACL", "SETUSER", "u", "-select")
	direct.Want(t, ":1\r\n", "CLIENT", "KILL", "USER", "u")
	proxytest.Eventually(t, "the link is dialled anew", func() bool { return client.Reply(t, "GET", "k") == "$1\r\nv\r\n" })
	if got := client.Reply(t, "SELECT", "3"); !strings.HasPrefix(got, "-NOPERM ") {
		t.Errorf("SELECT: %q", got)
	}
	client.Want(t, "$1\r\nv\r\n", "GET", "k")
}

// TestSelectOnCluster checks that a cluster has database 0 only.
func TestSelectOnCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	lines := []string{"SELECT 1", "SELECT -1", "SELECT x", "SELECT 0", "SELECT 99999999999", "PING"}
	if got, want := conversation(t, l.Addr, lines...), conversation(t, c.Addrs()[0], lines...); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// withoutID removes the connection's id from HELLO's reply.
func withoutID(s string) string {
	before, rest, ok := strings.Cut(s, `$2\r\nid\r\n:`)
	if !ok {
		return s
	}
	_, after, _ := strings.Cut(rest, `\r\n`)
	return before + after
}

// TestLocksInTheirDatabase checks that a lock is in its session's database.
func TestLocksInTheirDatabase(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	a, b, direct := l.Dial(t), l.Dial(t), proxytest.Dial(t, redis.Addr)
	b.Want(t, "+OK\r\n", "SELECT", "3")
	for _, c := range []*redistest.Client{a, b} {
		if got := c.Reply(t, "LOCK.ACQUIRE", "lock"); got[0] != ':' {
			t.Fatalf("got %q, want a token", got)
		}
	}
	direct.Want(t, ":1\r\n", "EXISTS", "lock")
	direct.Want(t, "+OK\r\n", "SELECT", "3")
	direct.Want(t, ":1\r\n", "EXISTS", "lock")
	b.Want(t, ":1\r\n", "LOCK.RELEASE", "lock")
	direct.Want(t, ":0\r\n", "EXISTS", "lock")
	b.Want(t, "+OK\r\n", "SELECT", "0")
	b.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "lock")
}
