package proxy

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"leash/internal/redistest"
	"leash/proxy/command"
)

// TestDeny checks that denied commands and categories get NOPERM everywhere, and that others work.
func TestDeny(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := startLeash(t, []string{redis.Addr}, func(o *options) {
		o.front.Deny = []string{"Config|Set", "debug", "@Dangerous", "object", "publish"}
	})
	c := l.dial(t)
	for _, args := range [][]string{
		{"CONFIG", "SET", "maxmemory", "0"}, {"DEBUG", "SLEEP", "0"}, {"KEYS", "*"}, {"FLUSHALL"}, {"flushdb", "a", "b"},
		{"OBJECT", "HELP"}, {"OBJECT", "ENCODING", "k"}, {"PUBLISH", "c", "m"}, {"LOCK.BREAK", "k"}, {"CLIENT", "KILL", "x"},
	} {
		got := do(t, c, args...)
		if !strings.HasPrefix(got, "-NOPERM this user has no permissions to run the '"+strings.ToLower(args[0])) ||
			!strings.HasSuffix(got, "' command: Leash denies it to everybody\r\n") {
			t.Errorf("%q: got %q", args, got)
		}
	}
	want(t, c, "+OK\r\n", "SET", "k", "v")
	want(t, c, "$1\r\nv\r\n", "GET", "k")
	want(t, c, ":1\r\n", "EVAL", "return redis.call('publish', 'c', 'm') + 1", "0") // scripts are not covered
	token(t, c, "lock")
	want(t, c, "-ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.\r\n", "CONFIG", "NOSUCH")
}

// TestDenyInMulti checks that a denied command aborts a transaction, and CLIENT REPLY mutes its
// error.
func TestDenyInMulti(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := startLeash(t, []string{redis.Addr}, func(o *options) { o.front.Deny = []string{"incr"} })
	c := l.dial(t)
	const denied = "-NOPERM this user has no permissions to run the 'incr' command: Leash denies it to everybody\r\n"
	want(t, c, "+OK\r\n", "MULTI")
	want(t, c, "+QUEUED\r\n", "SET", "k", "1")
	want(t, c, denied, "INCR", "k")
	want(t, c, "+QUEUED\r\n", "SET", "k", "2")
	want(t, c, "-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	want(t, c, "$-1\r\n", "GET", "k")
	pipeline := redistest.Command("MULTI") + redistest.Command("INCR", "k") + redistest.Command("EXEC") +
		redistest.Command("CLIENT", "REPLY", "SKIP") + redistest.Command("INCR", "k") + redistest.Command("PING")
	if got, want := exchange(t, l.addr, pipeline), "+OK\r\n"+denied+
		"-EXECABORT Transaction discarded because of previous errors.\r\n+PONG\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	noExec := startLeash(t, []string{redis.Addr}, func(o *options) { o.front.Deny = []string{"exec"} }).dial(t)
	want(t, noExec, "+OK\r\n", "MULTI")
	want(t, noExec, "+QUEUED\r\n", "SET", "k", "1")
	want(t, noExec, "-EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the "+
		"'exec' command: Leash denies it to everybody\r\n", "EXEC")
	want(t, noExec, "$-1\r\n", "GET", "k")
}

// TestAllowAdmin checks that only the named users may run commands of administrators.
func TestAllowAdmin(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := startLeash(t, []string{redis.Addr}, func(o *options) { o.front.AllowAdmin = []string{"app"} })
	c, admin := l.dial(t), l.dial(t)
	want(t, admin, "+OK\r\n", "AUTH", "app", "app")
	for _, args := range [][]string{
		{"CLIENT", "LIST", "ID", "0"}, {"LOCK.BREAK", "lock"}, {"CONFIG", "GET", "nosuch"}, {"SLOWLOG", "LEN"},
	} {
		got := do(t, c, args...)
		if !strings.HasPrefix(got, "-NOPERM ") || !strings.HasSuffix(got, ": only the users of --allow-admin may\r\n") {
			t.Errorf("%q: got %q", args, got)
		}
		if got := do(t, admin, args...); got[0] == '-' {
			t.Errorf("%q of an admin: got %q", args, got)
		}
	}
	want(t, c, "+OK\r\n", "SET", "k", "v")
	want(t, c, "+OK\r\n", "AUTH", "app", "app") // the checks follow the user
	want(t, c, ":0\r\n", "LOCK.BREAK", "lock")
	want(t, c, "+RESET\r\n", "RESET")
	if got := do(t, c, "LOCK.BREAK", "k"); !strings.HasPrefix(got, "-NOPERM ") {
		t.Errorf("after RESET: got %q", got)
	}
}

// TestPermissionsAreChecked checks that a name that Redis does not know ends the start.
func TestPermissionsAreChecked(t *testing.T) {
	redis := redistest.Start(t)
	told, err := command.Parse(startLeash(t, []string{redis.Addr}).up.Commands(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	table, silent := command.New(told), command.New(nil)
	for _, c := range []struct {
		table command.Table
		cfg   Config
		want  string
	}{
		{table, Config{Deny: []string{"get", "gett"}}, `--deny: redis has no command "gett"`},
		{table, Config{Deny: []string{"config|sett"}}, `--deny: redis has no command "config|sett"`},
		{table, Config{Deny: []string{"@danger"}}, `--deny: redis has no category "@danger"`},
		{table, Config{Deny: []string{"AUTH"}}, "--deny: auth cannot be denied, because every client may run it"},
		{table, Config{Deny: []string{"@fast"}}, ""},
		{silent, Config{Deny: []string{"@fast"}},
			"--deny: redis does not tell which commands are in @fast: name the commands instead"},
		{silent, Config{AllowAdmin: []string{"app"}},
			"--allow-admin: redis does not tell which commands are in @admin: name the commands instead"},
		{silent, Config{Deny: []string{"config|set", "get"}}, ""},
	} {
		if got := errorText(CheckPermissions(&c.cfg, c.table)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.cfg.Deny, got, c.want)
		}
	}
	l := startLeash(t, []string{redis.Addr})
	if _, err := New(Config{Deny: []string{"nosuch"}}, l.up, l.locks, l.exchange, nil,
		slog.New(slog.NewTextHandler(io.Discard, nil))); err == nil {
		t.Error("a server was made")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
