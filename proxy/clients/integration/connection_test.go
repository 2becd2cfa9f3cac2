package clients_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestClientsCannotUseLeashPassword checks that clients cannot use Leash's own password, not
// even for LOCK commands.
func TestClientsCannotUseLeashPassword(t *testing.T) {
	l := proxytest.Start(t, []string{proxytest.Secured(t).Addr}, proxytest.WithPassword)
	client := l.Dial(t)
	for _, cmd := range []string{"GET a", "SET a 1", "MGET a b", "PING", "ECHO x", "DBSIZE", "INFO", "CLIENT ID",
		"SELECT 0", "SCRIPT LOAD x", "COMMAND", "PUBLISH a b", "LOCK.ACQUIRE a", "LOCK.INFO a", "BLPOP a 0",
		"WAIT 0 0", "CLIENT SETINFO LIB-NAME x"} {
		client.Want(t, "-NOAUTH Authentication required.\r\n", strings.Fields(cmd)...)
	}
	if got := client.Reply(t, "AUTH", "wrong"); !strings.HasPrefix(got, "-WRONGPASS ") {
		t.Errorf("got %q", got)
	}
	client.Want(t, "-NOAUTH Authentication required.\r\n", "GET", "a")
	if got := client.Reply(t, "HELLO", "2"); !strings.HasPrefix(got, "-NOAUTH HELLO") {
		t.Errorf("got %q", got)
	}
	client.Want(t, "+OK\r\n", "AUTH", "secret")
	client.Want(t, "+OK\r\n", "SET", "a", "1")
	client.Want(t, "+PONG\r\n", "PING")
	client.Want(t, "+RESET\r\n", "RESET")
	client.Want(t, "-NOAUTH Authentication required.\r\n", "GET", "a")
}

func TestTrustedClients(t *testing.T) {
	l := proxytest.Start(t, []string{proxytest.Secured(t).Addr}, proxytest.WithPassword, func(o *proxytest.Options) {
		o.Front.TrustClients = true
	})
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "a", "1")
	client.Want(t, "+PONG\r\n", "PING")
}

// TestLanes checks that sessions of different users have their own rights at the same time.
func TestLanes(t *testing.T) {
	redis := proxytest.Secured(t)
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.WithPassword)
	bob, admin, nobody := l.Dial(t), l.Dial(t), l.Dial(t)
	bob.Want(t, "+OK\r\n", "AUTH", "bob", "builder")
	admin.Want(t, "+OK\r\n", "AUTH", "default", "secret")
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
	bob.Want(t, noPerm, "MGET", "bob:1", "alice:1")

	// A pipelined AUTH changes the rights of later commands only.
	got := proxytest.Exchange(t, l.Addr, redistest.Command("GET", "bob:1")+redistest.Command("AUTH", "bob", "builder")+
		redistest.Command("GET", "bob:1"))
	if got != "-NOAUTH Authentication required.\r\n+OK\r\n$1\r\nx\r\n" {
		t.Errorf("got %q", got)
	}
	// HELLO with AUTH and SETNAME.
	if got := nobody.Reply(t, "HELLO", "2", "AUTH", "bob", "builder", "SETNAME", "n"); !strings.Contains(got,
		"$5\r\nproto\r\n:2\r\n") {
		t.Errorf("got %q", got)
	}
	nobody.Want(t, "$1\r\nn\r\n", "CLIENT", "GETNAME")
	nobody.Want(t, "$1\r\nx\r\n", "GET", "bob:1")

	// The connections of a lane without sessions are closed.
	bob.Close()
	nobody.Close()
	proxytest.Eventually(t, "bob's connections are closed", func() bool {
		return !strings.Contains(clientList(t, redis), "user=bob")
	})
}

func clientList(t *testing.T, redis *redistest.Server) string {
	t.Helper()
	c := proxytest.Dial(t, redis.Addr)
	c.Want(t, "+OK\r\n", "AUTH", "secret")
	return c.Reply(t, "CLIENT", "LIST")
}

// TestRevokedCredential checks that a user whose password has changed is not served on a new
// connection with the old password.
func TestRevokedCredential(t *testing.T) {
	redis := proxytest.Secured(t)
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.WithPassword)
	bob := l.Dial(t)
	bob.Want(t, "+OK\r\n", "AUTH", "bob", "builder")
	bob.Want(t, "+OK\r\n", "SET", "bob:1", "x")
	admin := proxytest.Dial(t, redis.Addr)
	admin.Want(t, "+OK\r\n", "AUTH", "secret")
	admin.Want(t, "+OK\r\n", "ACL", "SETUSER", "bob", "resetpass", ">other")
	admin.Want(t, ":1\r\n", "CLIENT", "KILL", "USER", "bob")
	proxytest.Eventually(t, "bob is cut off", func() bool {
		reply, err := bob.Do("GET", "bob:1")
		return err != nil || strings.HasPrefix(reply, "-NOAUTH")
	})
}

// TestCommandsWithoutKeys checks that commands without keys are answered by Leash or sent to the
// right node.
func TestCommandsWithoutKeys(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	for i := range 100 {
		client.Want(t, "+OK\r\n", "SET", fmt.Sprint("key", i), "v")
	}
	client.Want(t, ":100\r\n", "DBSIZE")
	client.Want(t, ":0\r\n", "PUBLISH", "ch", "m")
	client.Want(t, "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n", "SCRIPT", "LOAD", "return 1")
	for i := range 20 {
		client.Want(t, ":1\r\n", "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", fmt.Sprint("key", i))
	}
	info := client.Reply(t, "INFO")
	for _, part := range []string{"# Server\r\n", "# Keyspace\r\n", "# Leash\r\n", "leash_upstream_mode:cluster\r\n"} {
		if !strings.Contains(info, part) {
			t.Errorf("INFO lacks %q", part)
		}
	}
	if got := client.Reply(t, "INFO", "leash"); !strings.Contains(got, "# Leash") || strings.Contains(got, "# Server") {
		t.Errorf("INFO leash: %q", got)
	}
	if got := client.Reply(t, "INFO", "server"); strings.Contains(got, "# Leash") ||
		!strings.Contains(got, "redis_version") {
		t.Errorf("INFO server: %q", got)
	}
	if got := client.Reply(t, "COMMAND", "COUNT"); got[0] != ':' {
		t.Errorf("COMMAND COUNT: %q", got)
	}
	client.Want(t, "-NOPROTO unsupported protocol version\r\n", "HELLO", "4")
	client.Want(t, "-ERR SELECT is not allowed in cluster mode\r\n", "SELECT", "1")
	client.Want(t, "+OK\r\n", "SELECT", "0")
	client.Want(t, "+PONG\r\n", "PING")
}

// TestClusterErrorsPassThrough checks that clients get Redis's errors about keys in several slots.
func TestClusterErrorsPassThrough(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	client.Want(t, "-CROSSSLOT Keys in request don't hash to the same slot\r\n", "RENAME", "a", "b")
	client.Want(t, "-CROSSSLOT Keys in request don't hash to the same slot\r\n", "SINTERSTORE", "a", "b", "c")
	client.Want(t, "+OK\r\n", "SET", "s", "x")
	client.Want(t, "+OK\r\n", "MSET", "t1", "1", "t2", "2")
	client.Want(t, "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n", "MGET", "t1", "l", "t2")
	client.Want(t, "-ERR wrong number of arguments for 'mset' command\r\n", "MSET", "a", "1", "b")
}

// TestAllocationsPerRelayedCommand limits the allocations of a relayed command. The session itself
// allocates nothing; this counts both ends.
func TestAllocationsPerRelayedCommand(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.Upstream.Mode = "standalone"
		o.Front.SlowerThan = -1 // an entry of the slow log has its own copy of the command
	})
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "k", "v")
	const count = 1000
	raw := strings.Repeat(redistest.Command("GET", "k"), count)
	reply := make([]byte, len("$1\r\nv\r\n")*count)
	perRun := testing.AllocsPerRun(20, func() {
		if err := client.Send(raw); err != nil {
			t.Fatal(err)
		}
		if _, err := proxytest.ReadFull(client, reply); err != nil {
			t.Fatal(err)
		}
	})
	if perCommand := perRun / count; perCommand > 0.1 {
		t.Errorf("%.3f allocations a command, want at most 0.1", perCommand)
	}
}

// TestUnsafeCommandsStayOffSharedLinks checks that commands that give several replies, block or
// change the connection are never sent on a shared link, even if they were renamed.
func TestUnsafeCommandsStayOffSharedLinks(t *testing.T) {
	redis := redistest.Start(t, "--rename-command", "MONITOR", "watchall", "--rename-command", "BLPOP", "waitfor")
	l := proxytest.Start(t, []string{redis.Addr})
	other := l.Dial(t)
	other.Want(t, "+OK\r\n", "SET", "k", "v")
	other.Want(t, "+OK\r\n", "XGROUP", "CREATE", "s", "STREAMS", "$", "MKSTREAM")
	for _, args := range [][]string{
		{"SUNSUBSCRIBE", "x", "y"}, {"SSUBSCRIBE", "x"}, {"SUBSCRIBE", "x", "y"}, {"WATCH", "k"}, {"MULTI"},
		{"waitfor", "q", "0"},
		{"XREADGROUP", "GROUP", "STREAMS", "c", "BLOCK", "0", "STREAMS", "s", ">"},
		{"XREAD", "COUNT", "1", "BLOCK", "0", "STREAMS", "s", "$"}, {"CLIENT", "REPLY", "OFF"},
		{"CLIENT", "TRACKING", "ON", "BCAST"},
	} {
		one := l.Dial(t)
		if err := one.Send(redistest.Command(args...)); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			other.Want(t, "$1\r\nv\r\n", "GET", "k")
			other.Want(t, "+OK\r\n", "SET", "k", "v")
		}
		one.Close()
	}
	// Leash does not know these commands
	for _, args := range [][]string{{"watchall"}, {"CLIENT", "NO-TOUCH", "ON"}} {
		if got := other.Reply(t, args...); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%q: %q", args, got)
		}
		other.Want(t, "$1\r\nv\r\n", "GET", "k")
	}
	other.Want(t, "*-1\r\n", "XREADGROUP", "GROUP", "STREAMS", "c", "STREAMS", "s", ">")
}

// TestManyAuthenticatedClients checks that no session loses its credential when other sessions of
// the user end.
func TestManyAuthenticatedClients(t *testing.T) {
	redis := redistest.Start(t)
	if err := redis.Client().Do(t.Context(), "ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	l := proxytest.Start(t, []string{redis.Addr})
	var working sync.WaitGroup
	for range 3 {
		working.Go(func() {
			for range 300 {
				c, err := redistest.Dial(l.Addr)
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
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.Upstream.RedirectTimeout = 100 * time.Millisecond
	})
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "AUTH", "app", "pw")
	client.Want(t, "+OK\r\n", "SET", "k", "v")
	set("CONFIG", "SET", "maxclients", "1")
	set("CLIENT", "KILL", "USER", "app")
	proxytest.Eventually(t, "Redis takes nobody", func() bool {
		return strings.HasPrefix(client.Reply(t, "GET", "k"), "-UPSTREAMDOWN")
	})
	set("CONFIG", "SET", "maxclients", "1000")
	proxytest.Eventually(t, "the session goes on", func() bool { return client.Reply(t, "GET", "k") == "$1\r\nv\r\n" })
}

// TestPasswordRequiredLater checks that Leash serves no client without a password once Redis
// requires one.
func TestPasswordRequiredLater(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "k", "v")
	if err := redis.Client().ConfigSet(t.Context(), "requirepass", "pw").Err(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "NOAUTH", func() bool { return strings.HasPrefix(l.Dial(t).Reply(t, "GET", "k"), "-NOAUTH ") })
	client.Want(t, "+OK\r\n", "AUTH", "pw")
	client.Want(t, "$1\r\nv\r\n", "GET", "k")
}

// TestProtocolsSideBySide checks that RESP2 and RESP3 sessions work on one port, and that RESET
// goes back to RESP2.
func TestProtocolsSideBySide(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	two, three := l.Dial(t), l.Dial(t)
	if got := three.Reply(t, "HELLO", "3", "SETNAME", "n"); !strings.HasPrefix(got,
		"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n") {
		t.Fatalf("HELLO 3: %q", got)
	}
	two.Want(t, ":1\r\n", "HSET", "h", "f", "v")
	two.Want(t, "*2\r\n$1\r\nf\r\n$1\r\nv\r\n", "HGETALL", "h")
	three.Want(t, "%1\r\n$1\r\nf\r\n$1\r\nv\r\n", "HGETALL", "h")
	two.Want(t, "*2\r\n$-1\r\n$-1\r\n", "MGET", "a", "b")
	three.Want(t, "*2\r\n_\r\n_\r\n", "MGET", "a", "b")
	three.Want(t, "$1\r\nn\r\n", "CLIENT", "GETNAME")
	if info := three.Reply(t, "INFO"); info[0] != '=' || !strings.Contains(info, "# Leash") {
		t.Errorf("INFO in RESP3: %.40q", info)
	}
	proxytest.Token(t, two, "lock")
	three.Want(t, "_\r\n", "LOCK.ACQUIRE", "lock")
	three.Want(t, "_\r\n", "LOCK.INFO", "free")
	if info := three.Reply(t, "LOCK.INFO", "lock"); !strings.HasPrefix(info, "%11\r\n$5\r\nstate\r\n$4\r\nheld\r\n") {
		t.Errorf("LOCK.INFO in RESP3: %q", info)
	}
	three.Want(t, "+RESET\r\n", "RESET")
	three.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "lock")
	three.Want(t, "$-1\r\n", "CLIENT", "GETNAME")
	got := proxytest.Exchange(t, l.Addr, redistest.Command("GET", "none")+redistest.Command("HELLO", "3")+
		redistest.Command("GET", "none")+redistest.Command("HELLO", "2")+redistest.Command("GET", "none"))
	if !strings.HasPrefix(got, "$-1\r\n%7\r\n") || !strings.Contains(got, "*0\r\n_\r\n*14\r\n") ||
		!strings.HasSuffix(got, "*0\r\n$-1\r\n") {
		t.Errorf("protocols in one pipeline: %q", got)
	}
}

// TestLocksNeedTheUsersRights checks that a lock needs the user's right to write the key, although
// Leash's own user writes it (R8).
func TestLocksNeedTheUsersRights(t *testing.T) {
	redis := proxytest.Secured(t)
	admin := proxytest.Dial(t, redis.Addr)
	admin.Want(t, "+OK\r\n", "AUTH", "secret")
	admin.Want(t, "+OK\r\n", "ACL", "SETUSER", "reader", "on", ">reads", "~*", "-@all", "+@read", "+@connection")
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.WithPassword)
	bob, reader, owner := l.Dial(t), l.Dial(t), l.Dial(t)
	bob.Want(t, "+OK\r\n", "AUTH", "bob", "builder")
	reader.Want(t, "+OK\r\n", "AUTH", "reader", "reads")
	owner.Want(t, "+OK\r\n", "AUTH", "secret")
	proxytest.Token(t, bob, "bob:1")
	const noKey = "-NOPERM this user has no permissions to access one of the keys used as arguments: "
	bob.Want(t, noKey+"'lock.acquire' needs the right to 'hset' it\r\n", "LOCK.ACQUIRE", "alice:1")
	bob.Want(t, noKey+"'lock.info' needs the right to 'hgetall' it\r\n", "LOCK.INFO", "alice:1")
	reader.Want(t, "-NOPERM this user has no permissions to run the 'lock.acquire' command: it needs the right to run 'hset' on its key\r\n",
		"LOCK.ACQUIRE", "bob:1")
	if info := reader.Reply(t, "LOCK.INFO", "bob:1"); !strings.Contains(info, "held") {
		t.Errorf("a reader's LOCK.INFO: %q", info)
	}
	number := proxytest.Token(t, owner, "alice:1")
	bob.Want(t, noKey+"'lock.release' needs the right to 'hset' it\r\n", "LOCK.RELEASE", "alice:1", "TOKEN", number)
	owner.Want(t, ":1\r\n", "LOCK.RELEASE", "alice:1")
	bob.Want(t, ":1\r\n", "LOCK.RELEASE", "bob:1")
}

// TestMaintenanceNotificationsAreRefused: redis-py asks for them by itself. When one connection is
// told to move, it replaces all of its pool, and the locks on them end without a word.
func TestMaintenanceNotificationsAreRefused(t *testing.T) {
	t.Parallel()
	c := proxytest.Start(t, []string{redistest.Start(t).Addr}).Dial(t)
	c.Reply(t, "HELLO", "3")
	got := c.Reply(t, "CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "none")
	if !strings.HasPrefix(got, "-ERR 'client|maint_notifications' is refused by leash: ") {
		t.Errorf("got %q", got)
	}
}
