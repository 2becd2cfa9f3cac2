package proxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/redistest"
)

// secured starts a Redis whose default user needs a password, and which has a user with few rights.
func secured(t *testing.T) *redistest.Server {
	t.Helper()
	redis, err := redistest.Launch(redistest.Options{Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Close() })
	admin := dialAddr(t, redis.Addr)
	want(t, admin, "+OK\r\n", "AUTH", "secret")
	want(t, admin, "+OK\r\n", "ACL", "SETUSER", "bob", "on", ">builder", "~bob:*", "+@all")
	return redis
}

func withPassword(o *options) { o.up.Password = "secret" }

// TestClientsCannotUseLeashPassword checks that clients cannot use Leash's own password, not
// even for LOCK commands.
func TestClientsCannotUseLeashPassword(t *testing.T) {
	l := startLeash(t, []string{secured(t).Addr}, withPassword)
	client := l.dial(t)
	for _, cmd := range []string{"GET a", "SET a 1", "MGET a b", "PING", "ECHO x", "DBSIZE", "INFO", "CLIENT ID",
		"SELECT 0", "SCRIPT LOAD x", "COMMAND", "PUBLISH a b", "LOCK.ACQUIRE a", "LOCK.INFO a", "BLPOP a 0",
		"WAIT 0 0", "CLIENT SETINFO LIB-NAME x"} {
		want(t, client, "-NOAUTH Authentication required.\r\n", strings.Fields(cmd)...)
	}
	if got := do(t, client, "AUTH", "wrong"); !strings.HasPrefix(got, "-WRONGPASS ") {
		t.Errorf("got %q", got)
	}
	want(t, client, "-NOAUTH Authentication required.\r\n", "GET", "a")
	if got := do(t, client, "HELLO", "2"); !strings.HasPrefix(got, "-NOAUTH HELLO") {
		t.Errorf("got %q", got)
	}
	want(t, client, "+OK\r\n", "AUTH", "secret")
	want(t, client, "+OK\r\n", "SET", "a", "1")
	want(t, client, "+PONG\r\n", "PING")
	want(t, client, "+RESET\r\n", "RESET")
	want(t, client, "-NOAUTH Authentication required.\r\n", "GET", "a")
}

func TestTrustedClients(t *testing.T) {
	l := startLeash(t, []string{secured(t).Addr}, withPassword, func(o *options) { o.front.TrustClients = true })
	client := l.dial(t)
	want(t, client, "+OK\r\n", "SET", "a", "1")
	want(t, client, "+PONG\r\n", "PING")
}

// TestLanes checks that sessions of different users have their own rights at the same time.
func TestLanes(t *testing.T) {
	redis := secured(t)
	l := startLeash(t, []string{redis.Addr}, withPassword)
	bob, admin, nobody := l.dial(t), l.dial(t), l.dial(t)
	want(t, bob, "+OK\r\n", "AUTH", "bob", "builder")
	want(t, admin, "+OK\r\n", "AUTH", "default", "secret")
	raw := ""
	for range 50 {
		raw += redistest.Command("SET", "bob:1", "x") + redistest.Command("SET", "alice:1", "x")
	}
	for _, c := range []*redistest.Client{bob, admin, nobody} {
		if err := c.Send(raw); err != nil {
			t.Fatal(err)
		}
	}
	const noPerm = "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"
	for range 50 {
		for c, replies := range map[*redistest.Client][2]string{
			bob:    {"+OK\r\n", noPerm},
			admin:  {"+OK\r\n", "+OK\r\n"},
			nobody: {"-NOAUTH Authentication required.\r\n", "-NOAUTH Authentication required.\r\n"},
		} {
			for _, wanted := range replies {
				if got, err := c.Read(); got != wanted {
					t.Fatalf("got %q %v, want %q", got, err, wanted)
				}
			}
		}
	}
	want(t, bob, noPerm, "MGET", "bob:1", "alice:1")

	// A pipelined AUTH changes the rights of later commands only.
	got := exchange(t, l.addr, redistest.Command("GET", "bob:1")+redistest.Command("AUTH", "bob", "builder")+
		redistest.Command("GET", "bob:1"))
	if got != "-NOAUTH Authentication required.\r\n+OK\r\n$1\r\nx\r\n" {
		t.Errorf("got %q", got)
	}
	// HELLO with AUTH and SETNAME.
	if got := do(t, nobody, "HELLO", "2", "AUTH", "bob", "builder", "SETNAME", "n"); !strings.Contains(got,
		"$5\r\nproto\r\n:2\r\n") {
		t.Errorf("got %q", got)
	}
	want(t, nobody, "$1\r\nn\r\n", "CLIENT", "GETNAME")
	want(t, nobody, "$1\r\nx\r\n", "GET", "bob:1")

	// The connections of a lane without sessions are closed.
	bob.Close()
	nobody.Close()
	eventually(t, "bob's connections are closed", func() bool {
		return !strings.Contains(clientList(t, redis), "user=bob")
	})
}

func clientList(t *testing.T, redis *redistest.Server) string {
	t.Helper()
	c := dialAddr(t, redis.Addr)
	want(t, c, "+OK\r\n", "AUTH", "secret")
	return do(t, c, "CLIENT", "LIST")
}

// TestRevokedCredential checks that a user whose password has changed is not served on a new
// connection with the old password.
func TestRevokedCredential(t *testing.T) {
	redis := secured(t)
	l := startLeash(t, []string{redis.Addr}, withPassword)
	bob := l.dial(t)
	want(t, bob, "+OK\r\n", "AUTH", "bob", "builder")
	want(t, bob, "+OK\r\n", "SET", "bob:1", "x")
	admin := dialAddr(t, redis.Addr)
	want(t, admin, "+OK\r\n", "AUTH", "secret")
	want(t, admin, "+OK\r\n", "ACL", "SETUSER", "bob", "resetpass", ">other")
	want(t, admin, ":1\r\n", "CLIENT", "KILL", "USER", "bob")
	eventually(t, "bob is cut off", func() bool {
		reply, err := bob.Do("GET", "bob:1")
		return err != nil || strings.HasPrefix(reply, "-NOAUTH")
	})
}

// TestCommandsWithoutKeys checks that commands without keys are answered by Leash or sent to the
// right node.
func TestCommandsWithoutKeys(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, c.Addrs())
	client := l.dial(t)
	for i := range 100 {
		want(t, client, "+OK\r\n", "SET", fmt.Sprint("key", i), "v")
	}
	want(t, client, ":100\r\n", "DBSIZE")
	want(t, client, ":0\r\n", "PUBLISH", "ch", "m")
	want(t, client, "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n", "SCRIPT", "LOAD", "return 1")
	for i := range 20 {
		want(t, client, ":1\r\n", "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", fmt.Sprint("key", i))
	}
	info := do(t, client, "INFO")
	for _, part := range []string{"# Server\r\n", "# Keyspace\r\n", "# Leash\r\n", "leash_upstream_mode:cluster\r\n"} {
		if !strings.Contains(info, part) {
			t.Errorf("INFO lacks %q", part)
		}
	}
	if got := do(t, client, "INFO", "leash"); !strings.Contains(got, "# Leash") || strings.Contains(got, "# Server") {
		t.Errorf("INFO leash: %q", got)
	}
	if got := do(t, client, "INFO", "server"); strings.Contains(got, "# Leash") ||
		!strings.Contains(got, "redis_version") {
		t.Errorf("INFO server: %q", got)
	}
	if got := do(t, client, "COMMAND", "COUNT"); got[0] != ':' {
		t.Errorf("COMMAND COUNT: %q", got)
	}
	want(t, client, "-NOPROTO unsupported protocol version\r\n", "HELLO", "4")
	want(t, client, "-ERR SELECT is not allowed in cluster mode\r\n", "SELECT", "1")
	want(t, client, "+OK\r\n", "SELECT", "0")
	want(t, client, "+PONG\r\n", "PING")
}

// TestClusterErrorsPassThrough checks that clients get Redis's errors about keys in several slots.
func TestClusterErrorsPassThrough(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, c.Addrs())
	client := l.dial(t)
	want(t, client, "-CROSSSLOT Keys in request don't hash to the same slot\r\n", "RENAME", "a", "b")
	want(t, client, "-CROSSSLOT Keys in request don't hash to the same slot\r\n", "SINTERSTORE", "a", "b", "c")
	want(t, client, "+OK\r\n", "SET", "s", "x")
	want(t, client, "+OK\r\n", "MSET", "t1", "1", "t2", "2")
	want(t, client, "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n", "MGET", "t1", "l", "t2")
	want(t, client, "-ERR wrong number of arguments for 'mset' command\r\n", "MSET", "a", "1", "b")
}

// TestAllocationsPerRelayedCommand limits the allocations of a relayed command. The session itself
// allocates nothing; this counts both ends.
func TestAllocationsPerRelayedCommand(t *testing.T) {
	redis := redistest.Start(t)
	l := startLeash(t, []string{redis.Addr}, func(o *options) {
		o.up.Mode = "standalone"
		o.front.SlowerThan = -1 // an entry of the slow log has its own copy of the command
	})
	client := l.dial(t)
	want(t, client, "+OK\r\n", "SET", "k", "v")
	const count = 1000
	raw := strings.Repeat(redistest.Command("GET", "k"), count)
	reply := make([]byte, len("$1\r\nv\r\n")*count)
	perRun := testing.AllocsPerRun(20, func() {
		if err := client.Send(raw); err != nil {
			t.Fatal(err)
		}
		if _, err := readFull(client, reply); err != nil {
			t.Fatal(err)
		}
	})
	if perCommand := perRun / count; perCommand > 0.1 {
		t.Errorf("%.3f allocations a command, want at most 0.1", perCommand)
	}
}

func readFull(c *redistest.Client, p []byte) (int, error) {
	for n := 0; n < len(p); {
		m, err := c.Conn().Read(p[n:])
		if err != nil {
			return n, err
		}
		n += m
	}
	return len(p), nil
}

// TestUnsafeCommandsStayOffSharedLinks checks that commands that give several replies, block or
// change the connection are never sent on a shared link, even if they were renamed.
func TestUnsafeCommandsStayOffSharedLinks(t *testing.T) {
	redis := redistest.Start(t, "--rename-command", "MONITOR", "watchall", "--rename-command", "BLPOP", "waitfor")
	l := startLeash(t, []string{redis.Addr})
	other := l.dial(t)
	want(t, other, "+OK\r\n", "SET", "k", "v")
	want(t, other, "+OK\r\n", "XGROUP", "CREATE", "s", "STREAMS", "$", "MKSTREAM")
	for _, args := range [][]string{
		{"SUNSUBSCRIBE", "x", "y"}, {"SSUBSCRIBE", "x"}, {"SUBSCRIBE", "x", "y"}, {"WATCH", "k"}, {"MULTI"},
		{"waitfor", "q", "0"},
		{"XREADGROUP", "GROUP", "STREAMS", "c", "BLOCK", "0", "STREAMS", "s", ">"},
		{"XREAD", "COUNT", "1", "BLOCK", "0", "STREAMS", "s", "$"}, {"CLIENT", "REPLY", "OFF"},
		{"CLIENT", "TRACKING", "ON", "BCAST"},
	} {
		one := l.dial(t)
		if err := one.Send(redistest.Command(args...)); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			want(t, other, "$1\r\nv\r\n", "GET", "k")
			want(t, other, "+OK\r\n", "SET", "k", "v")
		}
		one.Close()
	}
	// Leash does not know these commands
	for _, args := range [][]string{{"watchall"}, {"CLIENT", "NO-TOUCH", "ON"}} {
		if got := do(t, other, args...); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%q: %q", args, got)
		}
		want(t, other, "$1\r\nv\r\n", "GET", "k")
	}
	want(t, other, "*-1\r\n", "XREADGROUP", "GROUP", "STREAMS", "c", "STREAMS", "s", ">")
}

// TestManyAuthenticatedClients checks that no session loses its credential when other sessions of
// the user end.
func TestManyAuthenticatedClients(t *testing.T) {
	redis := redistest.Start(t)
	if err := redis.Client().Do(t.Context(), "ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	l := startLeash(t, []string{redis.Addr})
	var working sync.WaitGroup
	for range 3 {
		working.Go(func() {
			for range 300 {
				c, err := redistest.Dial(l.addr)
				if err != nil {
					t.Error(err)
					return
				}
				for _, cmd := range [][]string{{"AUTH", "app", "pw"}, {"SET", "k", "v"}} {
					if got, err := c.Do(cmd...); got != "+OK\r\n" {
						t.Errorf("%q: %q %v", cmd, got, err)
					}
				}
				c.Close()
			}
		})
	}
	working.Wait()
}

// TestFullRedisRefusesNoCredential checks that a Redis without free connections does not make Leash
// drop a credential.
func TestFullRedisRefusesNoCredential(t *testing.T) {
	redis := redistest.Start(t)
	admin := redis.Client()
	set := func(args ...any) {
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
	set("ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all")
	l := startLeash(t, []string{redis.Addr}, func(o *options) { o.up.RedirectTimeout = 100 * time.Millisecond })
	client := l.dial(t)
	want(t, client, "+OK\r\n", "AUTH", "app", "pw")
	want(t, client, "+OK\r\n", "SET", "k", "v")
	set("CONFIG", "SET", "maxclients", "1")
	set("CLIENT", "KILL", "USER", "app")
	eventually(t, "Redis takes nobody", func() bool {
		return strings.HasPrefix(do(t, client, "GET", "k"), "-UPSTREAMDOWN")
	})
	set("CONFIG", "SET", "maxclients", "1000")
	eventually(t, "the session goes on", func() bool { return do(t, client, "GET", "k") == "$1\r\nv\r\n" })
}

// TestPasswordRequiredLater checks that Leash serves no client without a password once Redis
// requires one.
func TestPasswordRequiredLater(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := startLeash(t, []string{redis.Addr})
	client := l.dial(t)
	want(t, client, "+OK\r\n", "SET", "k", "v")
	if err := redis.Client().ConfigSet(t.Context(), "requirepass", "pw").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "NOAUTH", func() bool { return strings.HasPrefix(do(t, l.dial(t), "GET", "k"), "-NOAUTH ") })
	want(t, client, "+OK\r\n", "AUTH", "pw")
	want(t, client, "$1\r\nv\r\n", "GET", "k")
}

// TestProtocolsSideBySide checks that RESP2 and RESP3 sessions work on one port, and that RESET
// goes back to RESP2.
func TestProtocolsSideBySide(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, c.Addrs())
	two, three := l.dial(t), l.dial(t)
	if got := do(t, three, "HELLO", "3", "SETNAME", "n"); !strings.HasPrefix(got,
		"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n") {
		t.Fatalf("HELLO 3: %q", got)
	}
	want(t, two, ":1\r\n", "HSET", "h", "f", "v")
	want(t, two, "*2\r\n$1\r\nf\r\n$1\r\nv\r\n", "HGETALL", "h")
	want(t, three, "%1\r\n$1\r\nf\r\n$1\r\nv\r\n", "HGETALL", "h")
	want(t, two, "*2\r\n$-1\r\n$-1\r\n", "MGET", "a", "b")
	want(t, three, "*2\r\n_\r\n_\r\n", "MGET", "a", "b")
	want(t, three, "$1\r\nn\r\n", "CLIENT", "GETNAME")
	if info := do(t, three, "INFO"); info[0] != '=' || !strings.Contains(info, "# Leash") {
		t.Errorf("INFO in RESP3: %.40q", info)
	}
	token(t, two, "lock")
	want(t, three, "_\r\n", "LOCK.ACQUIRE", "lock")
	want(t, three, "_\r\n", "LOCK.INFO", "free")
	if info := do(t, three, "LOCK.INFO", "lock"); !strings.HasPrefix(info, "%11\r\n$5\r\nstate\r\n$4\r\nheld\r\n") {
		t.Errorf("LOCK.INFO in RESP3: %q", info)
	}
	want(t, three, "+RESET\r\n", "RESET")
	want(t, three, "$-1\r\n", "LOCK.ACQUIRE", "lock")
	want(t, three, "$-1\r\n", "CLIENT", "GETNAME")
	got := exchange(t, l.addr, redistest.Command("GET", "none")+redistest.Command("HELLO", "3")+
		redistest.Command("GET", "none")+redistest.Command("HELLO", "2")+redistest.Command("GET", "none"))
	if !strings.HasPrefix(got, "$-1\r\n%7\r\n") || !strings.Contains(got, "*0\r\n_\r\n*14\r\n") ||
		!strings.HasSuffix(got, "*0\r\n$-1\r\n") {
		t.Errorf("protocols in one pipeline: %q", got)
	}
}

// TestLocksNeedTheUsersRights checks that a lock needs the user's right to write the key, although
// Leash's own user writes it (R8).
func TestLocksNeedTheUsersRights(t *testing.T) {
	redis := secured(t)
	admin := dialAddr(t, redis.Addr)
	want(t, admin, "+OK\r\n", "AUTH", "secret")
	want(t, admin, "+OK\r\n", "ACL", "SETUSER", "reader", "on", ">reads", "~*", "-@all", "+@read", "+@connection")
	l := startLeash(t, []string{redis.Addr}, withPassword)
	bob, reader, owner := l.dial(t), l.dial(t), l.dial(t)
	want(t, bob, "+OK\r\n", "AUTH", "bob", "builder")
	want(t, reader, "+OK\r\n", "AUTH", "reader", "reads")
	want(t, owner, "+OK\r\n", "AUTH", "secret")
	token(t, bob, "bob:1")
	const noKey = "-NOPERM this user has no permissions to access one of the keys used as arguments: "
	want(t, bob, noKey+"'lock.acquire' needs the right to 'hset' it\r\n", "LOCK.ACQUIRE", "alice:1")
	want(t, bob, noKey+"'lock.info' needs the right to 'hgetall' it\r\n", "LOCK.INFO", "alice:1")
	want(t, reader, "-NOPERM this user has no permissions to run the 'lock.acquire' command: it needs the right to run 'hset' on its key\r\n",
		"LOCK.ACQUIRE", "bob:1")
	if info := do(t, reader, "LOCK.INFO", "bob:1"); !strings.Contains(info, "held") {
		t.Errorf("a reader's LOCK.INFO: %q", info)
	}
	number := token(t, owner, "alice:1")
	want(t, bob, noKey+"'lock.release' needs the right to 'hset' it\r\n", "LOCK.RELEASE", "alice:1", "TOKEN", number)
	want(t, owner, ":1\r\n", "LOCK.RELEASE", "alice:1")
	want(t, bob, ":1\r\n", "LOCK.RELEASE", "bob:1")
}

// TestMaintenanceNotificationsAreRefused: redis-py asks for them by itself. When one connection is
// told to move, it replaces all of its pool, and the locks on them end without a word.
func TestMaintenanceNotificationsAreRefused(t *testing.T) {
	t.Parallel()
	c := startLeash(t, []string{redistest.Start(t).Addr}).dial(t)
	do(t, c, "HELLO", "3")
	got := do(t, c, "CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "none")
	if !strings.HasPrefix(got, "-ERR 'client|maint_notifications' is refused by leash: ") {
		t.Errorf("got %q", got)
	}
}
