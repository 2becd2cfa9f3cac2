package proxy_test

import (
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy"
)

const noAuth = "-NOAUTH Authentication required.\r\n"

// startOpen starts a Redis whose default user needs no password. It also has the users app, leash
// and anyone; anyone has no password.
func startOpen(t *testing.T) (*redistest.Server, *redistest.Client) {
	t.Helper()
	redis := redistest.Start(t)
	admin := redistest.Connect(t, redis.Addr)
	for _, rules := range [][]string{
		{"leash", "on", ">pw", "~*", "&*", "+@all"}, {"app", "on", ">app", "~*", "&*", "+@all"},
		{"anyone", "on", "nopass", "~*", "&*", "+@all"},
	} {
		admin.Want("+OK\r\n", append([]string{"ACL", "SETUSER"}, rules...)...)
	}
	return redis, admin.Client
}

func requireAuth(o *proxytest.Options) {
	o.Front.RequireAuth = true
	o.Upstream.User, o.Upstream.Password = "leash", "pw"
}

// TestRequireAuthRefusesAsRedis compares each command of a client that has not authenticated with a
// Redis that asks for a password. Leash has --require-auth, and its Redis asks for none.
func TestRequireAuthRefusesAsRedis(t *testing.T) {
	t.Parallel()
	open, _ := startOpen(t)
	closed, _ := startWithUsers(t)
	l := proxytest.Start(t, []string{open.Addr}, requireAuth)
	for name, c := range l.Commands() {
		if proxy.WithoutAuth[c.Name] || c.Own != nil || name == "DEBUG" { // Redis does not permit DEBUG at all
			continue
		}
		for _, args := range [][]string{{name}, {name, "a"}, {name, "a", "1", "b"}} {
			mine, theirs := l.Dial(t).Reply(t, args...), proxytest.Dial(t, closed.Addr).Reply(t, args...)
			if mine != theirs && !strings.HasPrefix(theirs, "-ERR unknown command") {
				t.Errorf("%q: got %q, want %q", args, mine, theirs)
			}
		}
	}
	c := l.Dial(t)
	for _, args := range [][]string{
		{"LOCK.ACQUIRE", "k"}, {"LOCK.HELP"}, {"SUBSCRIBE", "c"}, {"MULTI"}, {"MONITOR"}, {"CLIENT", "ID"},
		{"CLIENT", "REPLY", "SKIP"}, {"CONFIG", "GET", "*"}, {"EVAL", "return 1", "0"}, {"WAIT", "0", "0"},
	} {
		c.Want(t, noAuth, args...)
	}
	c.Want(t, "-ERR unknown command 'NOSUCH', with args beginning with: \r\n", "NOSUCH")
	if got := c.Reply(t, "HELLO", "3"); !strings.HasPrefix(got, "-NOAUTH HELLO must be called") {
		t.Errorf("HELLO: %q", got)
	}
	c.Want(t, "+RESET\r\n", "RESET")
	c.Want(t, "+OK\r\n", "QUIT")
}

// TestRequireAuthAcceptsUsers checks that users of Redis get in, and that the default user without
// a password does not.
func TestRequireAuthAcceptsUsers(t *testing.T) {
	t.Parallel()
	redis, admin := startOpen(t)
	l := proxytest.Start(t, []string{redis.Addr}, requireAuth)
	c := l.Dial(t)
	const noPassword = "-ERR AUTH <password> called without any password configured for the default user. " +
		"Are you sure your configuration is correct?\r\n"
	for _, refused := range [][]string{
		{"AUTH", "x"}, {"AUTH", "default", "x"}, {"HELLO", "3", "AUTH", "default", "x"},
	} {
		c.Want(t, noPassword, refused...)
		c.Want(t, noAuth, "GET", "k")
	}
	c.Want(t, "-WRONGPASS invalid username-password pair or user is disabled.\r\n", "AUTH", "app", "x")
	c.Want(t, noAuth, "GET", "k")
	c.Want(t, "+OK\r\n", "AUTH", "app", "app")
	c.Want(t, "$3\r\napp\r\n", "ACL", "WHOAMI")
	proxytest.Token(t, c, "lock")
	c.Want(t, "+RESET\r\n", "RESET")
	c.Want(t, noAuth, "GET", "k")
	if got := c.Reply(t, "HELLO", "3", "AUTH", "app", "app"); !strings.HasPrefix(got, "%7\r\n") {
		t.Fatalf("HELLO: %q", got)
	}
	c.Want(t, "+OK\r\n", "SET", "k", "v")
	l.Dial(t).Want(t, "+OK\r\n", "AUTH", "anyone", "anything")

	// The default user gets a password.
	admin.Want(t, "+OK\r\n", "ACL", "SETUSER", "default", "resetpass", ">new")
	own := l.Dial(t)
	own.Want(t, "-WRONGPASS invalid username-password pair or user is disabled.\r\n", "AUTH", "x")
	own.Want(t, "+OK\r\n", "AUTH", "default", "new")
	own.Want(t, "$1\r\nv\r\n", "GET", "k")
}

// TestRequireAuthLimitsBytes checks that Redis's tighter limits apply until the client has
// authenticated.
func TestRequireAuthLimitsBytes(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := proxytest.Start(t, []string{redis.Addr}, requireAuth)
	got := proxytest.Exchange(t, l.Addr, redistest.Command("SET", "k", strings.Repeat("v", 20000)))
	if want := "-ERR Protocol error: unauthenticated bulk length\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestProtectedMode checks which clients protected mode refuses.
func TestProtectedMode(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	closed, _ := startWithUsers(t)
	const ping, denied = "PING\r\n", "-DENIED Leash is running in protected mode because"
	for _, c := range []struct {
		name, from, want string
		redis            *redistest.Server
		set              func(*proxytest.Options)
	}{
		{"another machine", "TCP4 203.0.113.7", denied, redis, nil},
		{"another machine, IPv6", "TCP6 2001:db8::7", denied, redis, nil},
		{"this machine", "TCP4 127.0.0.7", "+PONG", redis, nil},
		{"this machine, IPv6", "TCP6 ::1", "+PONG", redis, nil},
		{"not protected", "TCP4 203.0.113.7", "+PONG", redis, func(o *proxytest.Options) {
			o.Front.ProtectedMode = false
		}},
		{"require auth", "TCP4 203.0.113.7", noAuth, redis, requireAuth},
		{"redis asks for a password", "TCP4 203.0.113.7", noAuth, closed, func(o *proxytest.Options) {
			o.Upstream.User, o.Upstream.Password = "leash", "pw"
		}},
		{"trusted", "TCP4 203.0.113.7", denied, closed, func(o *proxytest.Options) {
			o.Front.TrustClients, o.Upstream.User, o.Upstream.Password = true, "leash", "pw"
		}},
	} {
		l := proxytest.Start(t, []string{c.redis.Addr}, func(o *proxytest.Options) {
			o.Front.ProxyProtocol, o.Front.ProtectedMode = true, true
			if c.set != nil {
				c.set(o)
			}
		})
		family, from, _ := strings.Cut(c.from, " ")
		header := "PROXY " + family + " " + from + " " + from + " 1234 6380\r\n"
		got := proxytest.Exchange(t, l.Addr, header+ping+ping)
		if !strings.HasPrefix(got, c.want) || c.want == denied && strings.Count(got, "\r\n") != 1 {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if n := l.Figures().Disconnections["protected_mode"]; (n == 1) != (c.want == denied) {
			t.Errorf("%s: counted %d clients", c.name, n)
		}
	}
}
