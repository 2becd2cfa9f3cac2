package clients_test

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

func names(line string) (names []string) {
	for _, f := range strings.Fields(line) {
		name, _, _ := strings.Cut(f, "=")
		names = append(names, name)
	}
	return names
}

// TestClientListAsRedis checks that CLIENT LIST has Redis's fields in Redis's order, plus two of
// newer versions.
func TestClientListAsRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	redis, client, other := proxytest.Dial(t, server.Addr), l.Dial(t), l.Dial(t)
	other.Want(t, "+OK\r\n", "CLIENT", "SETNAME", "bob")
	other.Want(t, "+OK\r\n", "CLIENT", "SETINFO", "lib-name", "redis-x")
	other.Want(t, "+OK\r\n", "CLIENT", "SETINFO", "LIB-VER", "1.2")
	other.Want(t, "+OK\r\n", "CLIENT", "NO-EVICT", "on")
	other.Want(t, "+OK\r\n", "SELECT", "3")
	other.Reply(t, "HELLO", "3")
	other.Want(t, "_\r\n", "GET", "k")

	theirs := names(proxytest.Text(t, redis.Reply(t, "CLIENT", "INFO")))
	ours := names(proxytest.Text(t, client.Reply(t, "CLIENT", "INFO")))
	if want := append(theirs, "lib-name", "lib-ver"); !slices.Equal(ours, want) {
		t.Errorf("fields: got %q, want %q", ours, want)
	}
	got := proxytest.Listed(t, client, proxytest.AddrOf(other))
	for name, value := range map[string]string{
		"laddr": l.Addr, "name": "bob", "flags": "e", "db": "3", "sub": "0", "psub": "0", "ssub": "0",
		"multi": "-1", "cmd": "get",
		"user": "default", "redir": "-1", "resp": "3", "lib-name": "redis-x", "lib-ver": "1.2", "events": "r",
	} {
		if got[name] != value {
			t.Errorf("%s: got %q, want %q", name, got[name], value)
		}
	}
	self := proxytest.Fields(proxytest.Text(t, client.Reply(t, "CLIENT", "INFO")))
	if id := client.Reply(t, "CLIENT", "ID"); id != ":"+self["id"]+"\r\n" || self["cmd"] != "client|info" ||
		self["flags"] != "N" {
		t.Errorf("CLIENT INFO: %v, id %q", self, id)
	}
	proxytest.Eventually(t, "the clock goes on", func() bool {
		f := proxytest.Listed(t, client, proxytest.AddrOf(other))
		return f["age"] != "0" && f["idle"] != "0"
	})
}

// TestClientCommandsAsRedis compares replies that do not depend on the client.
func TestClientCommandsAsRedis(t *testing.T) {
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	// different where Leash's own clients are listed
	redis, client := proxytest.Dial(t, redistest.Start(t).Addr), l.Dial(t)
	for _, hello := range []string{"2", "3"} {
		redis.Reply(t, "HELLO", hello)
		client.Reply(t, "HELLO", hello)
		for _, cmd := range []string{
			"CLIENT LIST TYPE x", "CLIENT LIST TYPE", "CLIENT LIST ID", "CLIENT LIST ID 0", "CLIENT LIST ID x",
			"CLIENT LIST ID 999999", "CLIENT LIST x",
			"CLIENT LIST TYPE pubsub", "CLIENT LIST TYPE master", "CLIENT LIST TYPE slave", "CLIENT INFO x",
			"CLIENT KILL", "CLIENT KILL 1.2.3.4:5", "CLIENT KILL x y", "CLIENT KILL ID x", "CLIENT KILL ID 0",
			"CLIENT KILL ID 999999", "CLIENT KILL ID 99999 TYPE",
			"CLIENT KILL TYPE x", "CLIENT KILL TYPE replica", "CLIENT KILL USER nobody", "CLIENT KILL SKIPME x",
			"CLIENT KILL ADDR a LADDR b",
			"CLIENT NO-EVICT x", "CLIENT NO-EVICT ON", "CLIENT NO-EVICT off", "CLIENT NO-EVICT",
			"CLIENT PAUSE", "CLIENT PAUSE x", "CLIENT PAUSE -1", "CLIENT PAUSE 1 x", "CLIENT PAUSE 1 ALL x",
			"CLIENT PAUSE 0", "CLIENT PAUSE 0 WRITE", "CLIENT UNPAUSE", "CLIENT UNPAUSE x",
			"CLIENT GETREDIR", "CLIENT TRACKINGINFO", "CLIENT REPLY", "CLIENT REPLY x", "CLIENT REPLY ON",
			"CLIENT HELP", "CLIENT X", "CLIENT",
		} {
			client.Want(t, redis.Reply(t, strings.Fields(cmd)...), strings.Fields(cmd)...)
		}
	}
}

// TestClientKill checks that each filter ends the matching clients and no others.
func TestClientKill(t *testing.T) {
	server := redistest.Start(t)
	path := filepath.Join(t.TempDir(), "leash")
	l := proxytest.Start(t, []string{server.Addr}, func(o *proxytest.Options) {
		o.Listen = []string{"127.0.0.1:0", "unix:" + path}
	})
	proxytest.Dial(t, server.Addr).Want(t, "+OK\r\n", "ACL", "SETUSER", "bob", "on", ">secret", "~*", "+@all")
	admin := l.Dial(t)
	for _, filter := range []struct{ args, reply string }{
		{"ADDR", "+OK\r\n"}, {"ID ID", ":1\r\n"}, {"ADDR ADDR", ":1\r\n"}, {"USER bob", ":1\r\n"},
		{"USER bob LADDR LADDR", ":1\r\n"},
		{"TYPE normal USER bob", ":1\r\n"}, {"ID ID USER default", ":0\r\n"}, {"ID ID MAXAGE 1000", ":0\r\n"},
		{"TYPE pubsub", ":0\r\n"},
	} {
		victim, bystander := l.Dial(t), l.Dial(t)
		victim.Want(t, "+OK\r\n", "AUTH", "bob", "secret")
		bystander.Want(t, "+PONG\r\n", "PING")
		id := strings.Trim(victim.Reply(t, "CLIENT", "ID"), ":\r\n")
		args := strings.Fields("CLIENT KILL " + filter.args)
		// for these words, the value is taken from the victim's line
		if last := len(args) - 1; last == 2 || args[last-1] == args[last] || args[2] == "ID" {
			place := map[bool]int{true: last, false: 3}[args[2] != "ID"]
			args[place] = map[string]string{"ADDR": proxytest.AddrOf(victim), "ID": id, "LADDR": l.Addr}[args[place]]
		}
		admin.Want(t, filter.reply, args...)
		if _, err := victim.Do("PING"); (err == nil) != (filter.reply == ":0\r\n") {
			t.Errorf("%s: the victim got %v", filter.args, err)
		}
		bystander.Want(t, "+PONG\r\n", "PING")
		victim.Close()
		bystander.Close()
		proxytest.Eventually(t, "the clients are gone", func() bool { return l.Clients() == 1 })
	}
	admin.Want(t, "-ERR No such client\r\n", "CLIENT", "KILL", "127.0.0.1:1")

	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	client := redistest.NewClient(conn)
	defer client.Close()
	if got := proxytest.Fields(proxytest.Text(t, client.Reply(t, "CLIENT", "INFO"))); got["addr"] != path+":0" || got["flags"] != "U" {
		t.Errorf("on a unix socket: %v", got)
	}
	admin.Want(t, "+OK\r\n", "CLIENT", "KILL", path+":0")
	if _, err := client.Do("PING"); err == nil {
		t.Error("the client of the unix socket lives")
	}
}

// TestClientKillsItself checks that a client that kills itself gets the reply first and nothing
// after it.
func TestClientKillsItself(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	client := l.Dial(t)
	client.Want(t, ":0\r\n", "CLIENT", "KILL", "ADDR", proxytest.AddrOf(client))
	client.Want(t, "+PONG\r\n", "PING")
	raw := redistest.Command("SET", "a", "1") + redistest.Command("CLIENT", "KILL", "SKIPME", "no", "ADDR",
		proxytest.AddrOf(client)) + redistest.Command("SET", "a", "2")
	if err := client.Send(raw); err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"+OK\r\n", ":1\r\n"} {
		if got, err := client.Read(); got != reply {
			t.Fatalf("got %q, %v; want %q", got, err, reply)
		}
	}
	if err := client.AwaitEnd(); err != nil {
		t.Error(err)
	}
	l.Dial(t).Want(t, "$1\r\n1\r\n", "GET", "a")
}

// TestLocksOfKilledClientRunOut checks that the locks of a killed client run out, because the
// client may still be at work (R28).
func TestLocksOfKilledClientRunOut(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	holder, admin := l.Dial(t), l.Dial(t)
	if got := holder.Reply(t, "LOCK.ACQUIRE", "k"); got[0] != ':' {
		t.Fatal(got)
	}
	admin.Want(t, "+OK\r\n", "CLIENT", "KILL", proxytest.AddrOf(holder))
	proxytest.Eventually(t, "the holder's end", func() bool { return l.Clients() == 1 })
	admin.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "k")
	admin.Want(t, ":1\r\n", "EXISTS", "k")
}

// TestRightsOfAnsweredCommands checks that Leash answers a command itself only if Redis would let
// the user run it.
func TestRightsOfAnsweredCommands(t *testing.T) {
	server := redistest.Start(t)
	proxytest.Dial(t, server.Addr).Want(t, "+OK\r\n", "ACL", "SETUSER", "bob", "on", ">secret", "~*", "+@all",
		"-@dangerous", "-client|no-evict")
	proxytest.Dial(t, server.Addr).Want(t, "+OK\r\n", "ACL", "SETUSER", "sue", "on", ">secret", "~*", "+@all", "-client",
		"+client|kill")
	l := proxytest.Start(t, []string{server.Addr})
	for user, cmds := range map[string][]string{
		"bob": {"CLIENT LIST", "CLIENT KILL 1.2.3.4:5", "CLIENT PAUSE 1", "CLIENT UNPAUSE", "CLIENT NO-EVICT ON"},
		"sue": {"CLIENT LIST", "CLIENT PAUSE 1", "CLIENT UNPAUSE"},
	} {
		redis, client := proxytest.Dial(t, server.Addr), l.Dial(t)
		redis.Want(t, "+OK\r\n", "AUTH", user, "secret")
		client.Want(t, "+OK\r\n", "AUTH", user, "secret")
		for _, cmd := range cmds {
			reply := redis.Reply(t, strings.Fields(cmd)...)
			got := client.Reply(t, strings.Fields(cmd)...)
			if got != reply || !strings.HasPrefix(got, "-NOPERM ") {
				t.Errorf("%s: %s: got %q, want %q", user, cmd, got, reply)
			}
		}
		client.Want(t, "+OK\r\n", "SET", "k", "v")
	}
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "AUTH", "sue", "secret")
	client.Want(t, ":0\r\n", "CLIENT", "KILL", "ID", "999999")

	// Leash's own user is checked too, if it is also the clients' user.
	proxytest.Dial(t, server.Addr).Want(t, "+OK\r\n", "ACL", "SETUSER", "default", "-client|kill", "-client|list")
	redis, client := proxytest.Dial(t, server.Addr), l.Dial(t)
	for _, cmd := range []string{"CLIENT LIST", "CLIENT KILL 1.2.3.4:5"} {
		client.Want(t, redis.Reply(t, strings.Fields(cmd)...), strings.Fields(cmd)...)
	}
}

// TestClientListShowsWhatSessionsDo compares what CLIENT LIST shows of each session state with
// Redis.
func TestClientListShowsWhatSessionsDo(t *testing.T) {
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	for _, state := range []string{
		"PING", "MULTI", "MULTI;SET k v;GET k", "MULTI;SET k v;EXEC", "MULTI;DISCARD", "WATCH k", "SUBSCRIBE a b",
		"PSUBSCRIBE a", "SSUBSCRIBE a",
		"SUBSCRIBE a;UNSUBSCRIBE a", "HELLO 3;SUBSCRIBE a", "HELLO 3;CLIENT TRACKING ON",
		"HELLO 3;CLIENT TRACKING ON;CLIENT TRACKING OFF", "MONITOR", "MONITOR;RESET",
		"CLIENT NO-EVICT ON", "SELECT 5", "BLPOP none 0", "CLIENT SETNAME bob;RESET", "HELLO 3 SETNAME sue",
	} {
		// show waits a moment for what is wanted: Leash describes a session just after its reply.
		show := func(addr, wanted string) (shown string) {
			client, admin := proxytest.Dial(t, addr), proxytest.Dial(t, addr)
			defer client.Close()
			defer admin.Close()
			for cmd := range strings.SplitSeq(state, ";") {
				if strings.HasPrefix(cmd, "BLPOP") {
					if err := client.Send(redistest.Command(strings.Fields(cmd)...)); err != nil {
						t.Fatal(err)
					}
					proxytest.Eventually(t, "it blocks", func() bool { return proxytest.Listed(t, admin, proxytest.AddrOf(client))["flags"] == "b" })
					continue
				}
				client.Reply(t, strings.Fields(cmd)...)
				if cmd == "SUBSCRIBE a b" {
					if _, err := client.Read(); err != nil {
						t.Fatal(err)
					}
				}
			}
			for begin := time.Now(); shown == "" || wanted != "" && shown != wanted && time.Since(begin) < time.Second; {
				f, words := proxytest.Listed(t, admin, proxytest.AddrOf(client)), []string(nil)
				for _, name := range []string{"name", "flags", "db", "sub", "psub", "ssub", "multi", "cmd", "user",
					"redir", "resp"} {
					words = append(words, name+"="+f[name])
				}
				shown = strings.Join(words, " ")
			}
			return shown
		}
		want := show(server.Addr, "")
		if got := show(l.Addr, want); got != want {
			t.Errorf("%s: got %s\nwant %s", state, got, want)
		}
	}
	client, admin := l.Dial(t), l.Dial(t)
	client.Reply(t, "SUBSCRIBE", "a")
	if got := proxytest.Text(t, admin.Reply(t, "CLIENT", "LIST", "TYPE", "pubsub")); proxytest.Fields(got)["addr"] != proxytest.AddrOf(client) {
		t.Errorf("TYPE pubsub: %q", got)
	}
	admin.Want(t, ":1\r\n", "CLIENT", "KILL", "TYPE", "pubsub")
	admin.Want(t, "+OK\r\n", "CLIENT", "NO-TOUCH", "OFF")
	if got := admin.Reply(t, "CLIENT", "NO-TOUCH", "ON"); !strings.HasPrefix(got,
		"-ERR 'client|no-touch' is refused by leash: ") {
		t.Errorf("CLIENT NO-TOUCH ON: %q", got)
	}
}

// TestKilledWaiterTakesNothing checks that a killed waiter takes neither an element nor a lock.
func TestKilledWaiterTakesNothing(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	admin := l.Dial(t)
	if got := admin.Reply(t, "LOCK.ACQUIRE", "lock"); got[0] != ':' {
		t.Fatal(got)
	}
	for _, cmd := range []string{"BLPOP list 0", "LOCK.ACQUIRE lock BLOCK 0"} {
		client := l.Dial(t)
		if err := client.Send(redistest.Command(strings.Fields(cmd)...)); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "it waits", func() bool { return proxytest.Listed(t, admin, proxytest.AddrOf(client))["flags"] == "b" })
		admin.Want(t, "+OK\r\n", "CLIENT", "KILL", proxytest.AddrOf(client))
		proxytest.Eventually(t, "its end", func() bool { return l.Clients() == 1 })
	}
	admin.Want(t, ":1\r\n", "RPUSH", "list", "element")
	admin.Want(t, ":1\r\n", "LLEN", "list")
	admin.Want(t, ":1\r\n", "LOCK.RELEASE", "lock")
	if got := admin.Reply(t, "LOCK.ACQUIRE", "lock"); got[0] != ':' {
		t.Errorf("the lock is still held: %q", got)
	}
}

// TestClientListShowsLockCommands checks that CLIENT LIST shows lock commands like other commands.
func TestClientListShowsLockCommands(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	c, other := l.Dial(t), l.Dial(t)
	c.Want(t, "$-1\r\n", "GET", "a")
	proxytest.Token(t, c, "k")
	if list := other.Reply(t, "CLIENT", "LIST"); !strings.Contains(list, " cmd=lock.acquire ") {
		t.Errorf("got %q", list)
	}
	c.Want(t, "$-1\r\n", "GET", "a")
	proxytest.Eventually(t, "the last command is no lock command any more", func() bool {
		return !strings.Contains(other.Reply(t, "CLIENT", "LIST"), " cmd=lock.acquire ")
	})
}
