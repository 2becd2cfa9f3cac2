package proxy_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy"
	"leash/proxy/command"
)

// TestDeny checks that denied commands and categories get NOPERM everywhere, and that others work.
func TestDeny(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.Front.Deny = []string{"Config|Set", "debug", "@Dangerous", "object", "publish"}
	})
	c := l.Dial(t)
	for _, args := range [][]string{
		{"CONFIG", "SET", "maxmemory", "0"}, {"DEBUG", "SLEEP", "0"}, {"KEYS", "*"}, {"FLUSHALL"}, {"flushdb", "a", "b"},
		{"OBJECT", "HELP"}, {"OBJECT", "ENCODING", "k"}, {"PUBLISH", "c", "m"}, {"LOCK.BREAK", "k"}, {"CLIENT", "KILL", "x"},
	} {
		got := c.Reply(t, args...)
		if !strings.HasPrefix(got, "-NOPERM this user has no permissions to run the '"+strings.ToLower(args[0])) ||
			!strings.HasSuffix(got, "' command: Leash denies it to everybody\r\n") {
			t.Errorf("%q: got %q", args, got)
		}
	}
	c.Want(t, "+OK\r\n", "SET", "k", "v")
	c.Want(t, "$1\r\nv\r\n", "GET", "k")
	c.Want(t, ":1\r\n", "EVAL", "return redis.call('publish', 'c', 'm') + 1", "0") // scripts are not covered
	proxytest.Token(t, c, "lock")
	c.Want(t, "-ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.\r\n", "CONFIG", "NOSUCH")
}

// TestDenyInMulti checks that a denied command aborts a transaction, and CLIENT REPLY mutes its
// error.
func TestDenyInMulti(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.Deny = []string{"incr"} })
	c := l.Dial(t)
	const denied = "-NOPERM this user has no permissions to run the 'incr' command: Leash denies it to everybody\r\n"
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "SET", "k", "1")
	c.Want(t, denied, "INCR", "k")
	c.Want(t, "+QUEUED\r\n", "SET", "k", "2")
	c.Want(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	c.Want(t, "$-1\r\n", "GET", "k")
	pipeline := redistest.Command("MULTI") + redistest.Command("INCR", "k") + redistest.Command("EXEC") +
		redistest.Command("CLIENT", "REPLY", "SKIP") + redistest.Command("INCR", "k") + redistest.Command("PING")
	if got, want := proxytest.Exchange(t, l.Addr, pipeline), "+OK\r\n"+denied+
		"-EXECABORT Transaction discarded because of previous errors.\r\n+PONG\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	noExec := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.Front.Deny = []string{"exec"}
	}).Dial(t)
	noExec.Want(t, "+OK\r\n", "MULTI")
	noExec.Want(t, "+QUEUED\r\n", "SET", "k", "1")
	noExec.Want(t, "-EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the "+
		"'exec' command: Leash denies it to everybody\r\n", "EXEC")
	noExec.Want(t, "$-1\r\n", "GET", "k")
}

// TestAllowAdmin checks that only the named users may run commands of administrators.
func TestAllowAdmin(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.AllowAdmin = []string{"app"} })
	c, admin := l.Dial(t), l.Dial(t)
	admin.Want(t, "+OK\r\n", "AUTH", "app", "app")
	for _, args := range [][]string{
		{"CLIENT", "LIST", "ID", "0"}, {"LOCK.BREAK", "lock"}, {"CONFIG", "GET", "nosuch"}, {"SLOWLOG", "LEN"},
	} {
		got := c.Reply(t, args...)
		if !strings.HasPrefix(got, "-NOPERM ") || !strings.HasSuffix(got, ": only the users of --allow-admin may\r\n") {
			t.Errorf("%q: got %q", args, got)
		}
		if got := admin.Reply(t, args...); got[0] == '-' {
			t.Errorf("%q of an admin: got %q", args, got)
		}
	}
	c.Want(t, "+OK\r\n", "SET", "k", "v")
	c.Want(t, "+OK\r\n", "AUTH", "app", "app") // the checks follow the user
	c.Want(t, ":0\r\n", "LOCK.BREAK", "lock")
	c.Want(t, "+RESET\r\n", "RESET")
	if got := c.Reply(t, "LOCK.BREAK", "k"); !strings.HasPrefix(got, "-NOPERM ") {
		t.Errorf("after RESET: got %q", got)
	}
}

// TestPermissionsAreChecked checks that a name that Redis does not know ends the start.
func TestPermissionsAreChecked(t *testing.T) {
	redis := redistest.Start(t)
	told, err := command.Parse(proxytest.Start(t, []string{redis.Addr}).Upstream.Commands(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	table, silent := command.New(told), command.New(nil)
	for _, c := range []struct {
		table command.Table
		cfg   proxy.Config
		want  string
	}{
		{table, proxy.Config{Deny: []string{"get", "gett"}}, `--deny: redis has no command "gett"`},
		{table, proxy.Config{Deny: []string{"config|sett"}}, `--deny: redis has no command "config|sett"`},
		{table, proxy.Config{Deny: []string{"@danger"}}, `--deny: redis has no category "@danger"`},
		{table, proxy.Config{Deny: []string{"AUTH"}}, "--deny: auth cannot be denied, because every client may run it"},
		{table, proxy.Config{Deny: []string{"@fast"}}, ""},
		{silent, proxy.Config{Deny: []string{"@fast"}},
			"--deny: redis does not tell which commands are in @fast: name the commands instead"},
		{silent, proxy.Config{AllowAdmin: []string{"app"}},
			"--allow-admin: redis does not tell which commands are in @admin: name the commands instead"},
		{silent, proxy.Config{Deny: []string{"config|set", "get"}}, ""},
	} {
		if got := errorText(proxy.CheckPermissions(&c.cfg, c.table)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.cfg.Deny, got, c.want)
		}
	}
	l := proxytest.Start(t, []string{redis.Addr})
	if _, err := proxy.New(proxy.Config{Deny: []string{"nosuch"}}, l.Upstream, l.Locks, l.Exchange, nil,
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
