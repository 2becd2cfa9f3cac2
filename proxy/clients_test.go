package proxy

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/resp"
)

// text returns the text of a bulk or verbatim string.
func text(t testing.TB, reply string) string {
	t.Helper()
	body, ok := resp.Text([]byte(reply))
	if !ok {
		t.Fatalf("not a text: %.200q", reply)
	}
	return string(body)
}

// fields parses a line of CLIENT LIST.
func fields(line string) map[string]string {
	m := make(map[string]string)
	for _, f := range strings.Fields(line) {
		name, value, _ := strings.Cut(f, "=")
		m[name] = value
	}
	return m
}

// listed returns a client's fields in CLIENT LIST, or nil if it is not listed.
func listed(t testing.TB, asker *redistest.Client, addr string) map[string]string {
	t.Helper()
	for line := range strings.Lines(text(t, do(t, asker, "CLIENT", "LIST"))) {
		if f := fields(line); f["addr"] == addr {
			return f
		}
	}
	return nil
}

func addrOf(c *redistest.Client) string { return c.Conn().LocalAddr().String() }

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
	l := startLeash(t, []string{server.Addr})
	redis, client, other := dialAddr(t, server.Addr), l.dial(t), l.dial(t)
	want(t, other, "+OK\r\n", "CLIENT", "SETNAME", "bob")
	want(t, other, "+OK\r\n", "CLIENT", "SETINFO", "lib-name", "redis-x")
	want(t, other, "+OK\r\n", "CLIENT", "SETINFO", "LIB-VER", "1.2")
	want(t, other, "+OK\r\n", "CLIENT", "NO-EVICT", "on")
	want(t, other, "+OK\r\n", "SELECT", "3")
	do(t, other, "HELLO", "3")
	want(t, other, "_\r\n", "GET", "k")

	theirs := names(text(t, do(t, redis, "CLIENT", "INFO")))
	ours := names(text(t, do(t, client, "CLIENT", "INFO")))
	if want := append(theirs, "lib-name", "lib-ver"); !slices.Equal(ours, want) {
		t.Errorf("fields: got %q, want %q", ours, want)
	}
	got := listed(t, client, addrOf(other))
	for name, value := range map[string]string{
		"laddr": l.addr, "name": "bob", "flags": "e", "db": "3", "sub": "0", "psub": "0", "ssub": "0",
		"multi": "-1", "cmd": "get",
		"user": "default", "redir": "-1", "resp": "3", "lib-name": "redis-x", "lib-ver": "1.2", "events": "r",
	} {
		if got[name] != value {
			t.Errorf("%s: got %q, want %q", name, got[name], value)
		}
	}
	self := fields(text(t, do(t, client, "CLIENT", "INFO")))
	if id := do(t, client, "CLIENT", "ID"); id != ":"+self["id"]+"\r\n" || self["cmd"] != "client|info" ||
		self["flags"] != "N" {
		t.Errorf("CLIENT INFO: %v, id %q", self, id)
	}
	eventually(t, "the clock goes on", func() bool {
		f := listed(t, client, addrOf(other))
		return f["age"] != "0" && f["idle"] != "0"
	})
}

// TestClientCommandsAsRedis compares replies that do not depend on the client.
func TestClientCommandsAsRedis(t *testing.T) {
	server := redistest.Start(t)
	l := startLeash(t, []string{server.Addr})
	// different where Leash's own clients are listed
	redis, client := dialAddr(t, redistest.Start(t).Addr), l.dial(t)
	for _, hello := range []string{"2", "3"} {
		do(t, redis, "HELLO", hello)
		do(t, client, "HELLO", hello)
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
			want(t, client, do(t, redis, strings.Fields(cmd)...), strings.Fields(cmd)...)
		}
	}
}

// TestClientKill checks that each filter ends the matching clients and no others.
func TestClientKill(t *testing.T) {
	server := redistest.Start(t)
	path := filepath.Join(t.TempDir(), "leash")
	l := startLeash(t, []string{server.Addr}, func(o *options) {
		o.listen = []string{"127.0.0.1:0", "unix:" + path}
	})
	want(t, dialAddr(t, server.Addr), "+OK\r\n", "ACL", "SETUSER", "bob", "on", ">secret", "~*", "+@all")
	admin := l.dial(t)
	for _, filter := range []struct{ args, reply string }{
		{"ADDR", "+OK\r\n"}, {"ID ID", ":1\r\n"}, {"ADDR ADDR", ":1\r\n"}, {"USER bob", ":1\r\n"},
		{"USER bob LADDR LADDR", ":1\r\n"},
		{"TYPE normal USER bob", ":1\r\n"}, {"ID ID USER default", ":0\r\n"}, {"ID ID MAXAGE 1000", ":0\r\n"},
		{"TYPE pubsub", ":0\r\n"},
	} {
		victim, bystander := l.dial(t), l.dial(t)
		want(t, victim, "+OK\r\n", "AUTH", "bob", "secret")
		want(t, bystander, "+PONG\r\n", "PING")
		id := strings.Trim(do(t, victim, "CLIENT", "ID"), ":\r\n")
		args := strings.Fields("CLIENT KILL " + filter.args)
		// for these words, the value is taken from the victim's line
		if last := len(args) - 1; last == 2 || args[last-1] == args[last] || args[2] == "ID" {
			place := map[bool]int{true: last, false: 3}[args[2] != "ID"]
			args[place] = map[string]string{"ADDR": addrOf(victim), "ID": id, "LADDR": l.addr}[args[place]]
		}
		want(t, admin, filter.reply, args...)
		if _, err := victim.Do("PING"); (err == nil) != (filter.reply == ":0\r\n") {
			t.Errorf("%s: the victim got %v", filter.args, err)
		}
		want(t, bystander, "+PONG\r\n", "PING")
		victim.Close()
		bystander.Close()
		eventually(t, "the clients are gone", func() bool { return l.clients() == 1 })
	}
	want(t, admin, "-ERR No such client\r\n", "CLIENT", "KILL", "127.0.0.1:1")

	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	client := redistest.NewClient(conn)
	defer client.Close()
	if got := fields(text(t, do(t, client, "CLIENT", "INFO"))); got["addr"] != path+":0" || got["flags"] != "U" {
		t.Errorf("on a unix socket: %v", got)
	}
	want(t, admin, "+OK\r\n", "CLIENT", "KILL", path+":0")
	if _, err := client.Do("PING"); err == nil {
		t.Error("the client of the unix socket lives")
	}
}

// TestClientKillsItself checks that a client that kills itself gets the reply first and nothing
// after it.
func TestClientKillsItself(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	client := l.dial(t)
	want(t, client, ":0\r\n", "CLIENT", "KILL", "ADDR", addrOf(client))
	want(t, client, "+PONG\r\n", "PING")
	raw := redistest.Command("SET", "a", "1") + redistest.Command("CLIENT", "KILL", "SKIPME", "no", "ADDR",
		addrOf(client)) + redistest.Command("SET", "a", "2")
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
	want(t, l.dial(t), "$1\r\n1\r\n", "GET", "a")
}

// TestLocksOfKilledClientRunOut checks that the locks of a killed client run out, because the
// client may still be at work (R28).
func TestLocksOfKilledClientRunOut(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	holder, admin := l.dial(t), l.dial(t)
	if got := do(t, holder, "LOCK.ACQUIRE", "k"); got[0] != ':' {
		t.Fatal(got)
	}
	want(t, admin, "+OK\r\n", "CLIENT", "KILL", addrOf(holder))
	eventually(t, "the holder's end", func() bool { return l.clients() == 1 })
	want(t, admin, "$-1\r\n", "LOCK.ACQUIRE", "k")
	want(t, admin, ":1\r\n", "EXISTS", "k")
}

// TestRightsOfAnsweredCommands checks that Leash answers a command itself only if Redis would let
// the user run it.
func TestRightsOfAnsweredCommands(t *testing.T) {
	server := redistest.Start(t)
	want(t, dialAddr(t, server.Addr), "+OK\r\n", "ACL", "SETUSER", "bob", "on", ">secret", "~*", "+@all",
		"-@dangerous", "-client|no-evict")
	want(t, dialAddr(t, server.Addr), "+OK\r\n", "ACL", "SETUSER", "sue", "on", ">secret", "~*", "+@all", "-client",
		"+client|kill")
	l := startLeash(t, []string{server.Addr})
	for user, cmds := range map[string][]string{
		"bob": {"CLIENT LIST", "CLIENT KILL 1.2.3.4:5", "CLIENT PAUSE 1", "CLIENT UNPAUSE", "CLIENT NO-EVICT ON"},
		"sue": {"CLIENT LIST", "CLIENT PAUSE 1", "CLIENT UNPAUSE"},
	} {
		redis, client := dialAddr(t, server.Addr), l.dial(t)
		want(t, redis, "+OK\r\n", "AUTH", user, "secret")
		want(t, client, "+OK\r\n", "AUTH", user, "secret")
		for _, cmd := range cmds {
			reply := do(t, redis, strings.Fields(cmd)...)
			got := do(t, client, strings.Fields(cmd)...)
			if got != reply || !strings.HasPrefix(got, "-NOPERM ") {
				t.Errorf("%s: %s: got %q, want %q", user, cmd, got, reply)
			}
		}
		want(t, client, "+OK\r\n", "SET", "k", "v")
	}
	client := l.dial(t)
	want(t, client, "+OK\r\n", "AUTH", "sue", "secret")
	want(t, client, ":0\r\n", "CLIENT", "KILL", "ID", "999999")

	// Leash's own user is checked too, if it is also the clients' user.
	want(t, dialAddr(t, server.Addr), "+OK\r\n", "ACL", "SETUSER", "default", "-client|kill", "-client|list")
	redis, client := dialAddr(t, server.Addr), l.dial(t)
	for _, cmd := range []string{"CLIENT LIST", "CLIENT KILL 1.2.3.4:5"} {
		want(t, client, do(t, redis, strings.Fields(cmd)...), strings.Fields(cmd)...)
	}
}

// TestClientListShowsWhatSessionsDo compares what CLIENT LIST shows of each session state with
// Redis.
func TestClientListShowsWhatSessionsDo(t *testing.T) {
	server := redistest.Start(t)
	l := startLeash(t, []string{redistest.Start(t).Addr})
	for _, state := range []string{
		"PING", "MULTI", "MULTI;SET k v;GET k", "MULTI;SET k v;EXEC", "MULTI;DISCARD", "WATCH k", "SUBSCRIBE a b",
		"PSUBSCRIBE a", "SSUBSCRIBE a",
		"SUBSCRIBE a;UNSUBSCRIBE a", "HELLO 3;SUBSCRIBE a", "HELLO 3;CLIENT TRACKING ON",
		"HELLO 3;CLIENT TRACKING ON;CLIENT TRACKING OFF", "MONITOR", "MONITOR;RESET",
		"CLIENT NO-EVICT ON", "SELECT 5", "BLPOP none 0", "CLIENT SETNAME bob;RESET", "HELLO 3 SETNAME sue",
	} {
		// show waits a moment for what is wanted: Leash describes a session just after its reply.
		show := func(addr, wanted string) (shown string) {
			client, admin := dialAddr(t, addr), dialAddr(t, addr)
			defer client.Close()
			defer admin.Close()
			for cmd := range strings.SplitSeq(state, ";") {
				if strings.HasPrefix(cmd, "BLPOP") {
					if err := client.Send(redistest.Command(strings.Fields(cmd)...)); err != nil {
						t.Fatal(err)
					}
					eventually(t, "it blocks", func() bool { return listed(t, admin, addrOf(client))["flags"] == "b" })
					continue
				}
				do(t, client, strings.Fields(cmd)...)
				if cmd == "SUBSCRIBE a b" {
					if _, err := client.Read(); err != nil {
						t.Fatal(err)
					}
				}
			}
			for begin := time.Now(); shown == "" || wanted != "" && shown != wanted && time.Since(begin) < time.Second; {
				f, words := listed(t, admin, addrOf(client)), []string(nil)
				for _, name := range []string{"name", "flags", "db", "sub", "psub", "ssub", "multi", "cmd", "user",
					"redir", "resp"} {
					words = append(words, name+"="+f[name])
				}
				shown = strings.Join(words, " ")
			}
			return shown
		}
		want := show(server.Addr, "")
		if got := show(l.addr, want); got != want {
			t.Errorf("%s: got %s\nwant %s", state, got, want)
		}
	}
	client, admin := l.dial(t), l.dial(t)
	do(t, client, "SUBSCRIBE", "a")
	if got := text(t, do(t, admin, "CLIENT", "LIST", "TYPE", "pubsub")); fields(got)["addr"] != addrOf(client) {
		t.Errorf("TYPE pubsub: %q", got)
	}
	want(t, admin, ":1\r\n", "CLIENT", "KILL", "TYPE", "pubsub")
	want(t, admin, "+OK\r\n", "CLIENT", "NO-TOUCH", "OFF")
	if got := do(t, admin, "CLIENT", "NO-TOUCH", "ON"); !strings.HasPrefix(got,
		"-ERR 'client|no-touch' is refused by leash: ") {
		t.Errorf("CLIENT NO-TOUCH ON: %q", got)
	}
}

// TestKilledWaiterTakesNothing checks that a killed waiter takes neither an element nor a lock.
func TestKilledWaiterTakesNothing(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	admin := l.dial(t)
	if got := do(t, admin, "LOCK.ACQUIRE", "lock"); got[0] != ':' {
		t.Fatal(got)
	}
	for _, cmd := range []string{"BLPOP list 0", "LOCK.ACQUIRE lock BLOCK 0"} {
		client := l.dial(t)
		if err := client.Send(redistest.Command(strings.Fields(cmd)...)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { return listed(t, admin, addrOf(client))["flags"] == "b" })
		want(t, admin, "+OK\r\n", "CLIENT", "KILL", addrOf(client))
		eventually(t, "its end", func() bool { return l.clients() == 1 })
	}
	want(t, admin, ":1\r\n", "RPUSH", "list", "element")
	want(t, admin, ":1\r\n", "LLEN", "list")
	want(t, admin, ":1\r\n", "LOCK.RELEASE", "lock")
	if got := do(t, admin, "LOCK.ACQUIRE", "lock"); got[0] != ':' {
		t.Errorf("the lock is still held: %q", got)
	}
}

// TestClientListShowsLockCommands checks that CLIENT LIST shows lock commands like other commands.
func TestClientListShowsLockCommands(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	c, other := l.dial(t), l.dial(t)
	want(t, c, "$-1\r\n", "GET", "a")
	token(t, c, "k")
	if list := do(t, other, "CLIENT", "LIST"); !strings.Contains(list, " cmd=lock.acquire ") {
		t.Errorf("got %q", list)
	}
	want(t, c, "$-1\r\n", "GET", "a")
	eventually(t, "the last command is no lock command any more", func() bool {
		return !strings.Contains(do(t, other, "CLIENT", "LIST"), " cmd=lock.acquire ")
	})
}
