package upstream_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestReadsWhileRedisRefusesWrites checks that a connection made while Redis refuses writes
// and PING serves all other commands.
func TestReadsWhileRedisRefusesWrites(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := redistest.Start(t, "--save", "3600 1", "--dir", dir)
	direct := redistest.Connect(t, s.Addr)
	direct.Want("+OK\r\n", "SET", "k", "v")
	direct.Want("+OK\r\n", "ACL", "SETUSER", "other", "on", ">pw", "+@all", "~*", "&*")
	l := proxytest.Start(t, []string{s.Addr})
	if err := os.Remove(dir); err != nil { // a save fails from now on
		t.Fatal(err)
	}
	direct.Do("BGSAVE")
	proxytest.Eventually(t, "Redis refuses writes", func() bool { return strings.HasPrefix(direct.Do("PING"), "-MISCONF ") })
	refused := direct.Do("SET", "k", "w")
	for _, user := range [][]string{nil, {"AUTH", "other", "pw"}, {"HELLO", "3", "AUTH", "other", "pw"}} {
		c := l.Dial(t)
		if user != nil {
			c.Reply(t, user...)
		}
		c.Want(t, "$1\r\nv\r\n", "GET", "k")
		c.Want(t, refused, "SET", "k", "w")
	}
	c := l.Dial(t)
	c.Want(t, "+OK\r\n", "MULTI") // on a connection of its own
	c.Want(t, "+QUEUED\r\n", "GET", "k")
	c.Want(t, "*1\r\n$1\r\nv\r\n", "EXEC")
	for name, l := range map[string]*proxytest.Leash{"running": l, "fresh": proxytest.Start(t, []string{s.Addr})} {
		c := l.Dial(t)
		c.Want(t, "+OK\r\n", "SELECT", "3")
		c.Want(t, "$-1\r\n", "GET", "k")
		c.Want(t, "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", "SUBSCRIBE", "ch")
		if reply := l.Dial(t).Reply(t, "LOCK.ACQUIRE", "lock"); !strings.Contains(reply, "MISCONF ") {
			t.Errorf("%s: LOCK.ACQUIRE: %q, want Redis's own reason", name, reply)
		}
	}
}

// TestStartWithReplicaWithoutMaster checks that Leash starts in front of a replica without its
// master, and passes its errors on.
func TestStartWithReplicaWithoutMaster(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--replicaof", "127.0.0.1 1", "--replica-serve-stale-data", "no")
	direct := redistest.Connect(t, s.Addr)
	refused := direct.Do("GET", "k")
	if !strings.HasPrefix(refused, "-MASTERDOWN ") || !strings.HasPrefix(direct.Do("PING"), "-MASTERDOWN ") {
		t.Fatalf("GET: %q", refused)
	}
	c := proxytest.Start(t, []string{s.Addr}).Dial(t)
	c.Want(t, refused, "GET", "k")
	c.Want(t, "+OK\r\n", "SELECT", "3")
	c.Want(t, refused, "GET", "k")
	direct.Want("+OK\r\n", "REPLICAOF", "NO", "ONE")
	c.Want(t, "$-1\r\n", "GET", "k")
}

// TestStartWhileRedisLoads checks that Leash starts in front of a Redis that loads its data, and
// passes its errors on.
func TestStartWhileRedisLoads(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024")
	direct := redistest.Connect(t, s.Addr)
	direct.Want("+OK\r\n", "DEBUG", "POPULATE", "3000")
	direct.Want("+OK\r\n", "CONFIG", "SET", "key-load-delay", "2000") // 6 s in all
	loading := make(chan string, 1)
	go func() { loading <- direct.Do("DEBUG", "RELOAD") }()
	second := redistest.Connect(t, s.Addr)
	proxytest.Eventually(t, "Redis loads", func() bool { return strings.HasPrefix(second.Do("PING"), "-LOADING ") })
	c := proxytest.Start(t, []string{s.Addr}).Dial(t)
	c.Want(t, "-LOADING Redis is loading the dataset in memory\r\n", "GET", "key:1")
	second.Want("+OK\r\n", "CONFIG", "SET", "key-load-delay", "0")
	if reply := <-loading; reply != "+OK\r\n" {
		t.Fatal(reply)
	}
	c.Want(t, "$7\r\nvalue:1\r\n", "GET", "key:1")
}
