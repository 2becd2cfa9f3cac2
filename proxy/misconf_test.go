package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leash/internal/redistest"
)

// TestRedisThatRefusesWritesServesReads: a connection that Leash makes while Redis refuses writes, and PING with them, serves
// what Redis still does.
func TestRedisThatRefusesWritesServesReads(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := redistest.Start(t, "--save", "3600 1", "--dir", dir)
	direct := redistest.Connect(t, s.Addr)
	direct.Want("+OK\r\n", "SET", "k", "v")
	direct.Want("+OK\r\n", "ACL", "SETUSER", "other", "on", ">pw", "+@all", "~*", "&*")
	l := startLeash(t, []string{s.Addr})
	if err := os.Remove(dir); err != nil { // a save fails from now on
		t.Fatal(err)
	}
	direct.Do("BGSAVE")
	eventually(t, "Redis refuses writes", func() bool { return strings.HasPrefix(direct.Do("PING"), "-MISCONF ") })
	refused := direct.Do("SET", "k", "w")
	for _, user := range [][]string{nil, {"AUTH", "other", "pw"}, {"HELLO", "3", "AUTH", "other", "pw"}} {
		c := l.dial(t)
		if user != nil {
			do(t, c, user...)
		}
		want(t, c, "$1\r\nv\r\n", "GET", "k")
		want(t, c, refused, "SET", "k", "w")
	}
	c := l.dial(t)
	want(t, c, "+OK\r\n", "MULTI") // on a connection of its own
	want(t, c, "+QUEUED\r\n", "GET", "k")
	want(t, c, "*1\r\n$1\r\nv\r\n", "EXEC")
}
