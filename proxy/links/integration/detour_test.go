package links_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// waitsFor is a client that has sent a command and waits for its reply.
type waitsFor struct {
	*redistest.Client
	t     *testing.T
	reply chan string
}

// sends sends a command on a new connection.
func sends(t *testing.T, addr string, args ...string) *waitsFor {
	t.Helper()
	w := &waitsFor{proxytest.Dial(t, addr), t, make(chan string, 1)}
	if err := w.Send(redistest.Command(args...)); err != nil {
		t.Fatal(err)
	}
	go func() {
		reply, err := w.Read()
		if err != nil {
			reply = err.Error()
		}
		w.reply <- reply
	}()
	return w
}

// waits fails the test if the reply has come.
func (w *waitsFor) waits() {
	w.t.Helper()
	select {
	case got := <-w.reply:
		w.t.Fatalf("answered %q, though it should wait", got)
	default:
	}
}

// gets waits for the reply.
func (w *waitsFor) gets(reply string) {
	w.t.Helper()
	select {
	case got := <-w.reply:
		if got != reply {
			w.t.Fatalf("got %q, want %q", got, reply)
		}
	case <-time.After(30 * time.Second):
		w.t.Fatal("no reply")
	}
}

// TestReadsGoOnWhileWritesArePaused checks that reads of other sessions continue while Redis pauses
// writes, as in a planned failover. Other writes wait, and so do later commands of their clients.
func TestReadsGoOnWhileWritesArePaused(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	single := redistest.Start(t)
	for name, addrs := range map[string][]string{"cluster": cluster.Addrs(), "standalone": {single.Addr}} {
		t.Run(name, func(t *testing.T) {
			l := proxytest.Start(t, addrs)
			reads, many := l.Dial(t), l.Dial(t)
			reads.Want(t, "+OK\r\n", "SET", "{k}a", "old")
			var admins []*redistest.Client
			for _, addr := range addrs {
				admins = append(admins, proxytest.Dial(t, addr))
				admins[len(admins)-1].Want(t, "+OK\r\n", "CLIENT", "PAUSE", "600000", "WRITE")
			}
			paused := sends(t, l.Addr, "SET", "{k}a", "new")
			for range 3 {
				reads.Want(t, "$3\r\nold\r\n", "GET", "{k}a")
			}
			pipelined := sends(t, l.Addr, "SET", "{k}b", "new")
			if err := pipelined.Send(redistest.Command("GET", "{k}b")); err != nil {
				t.Fatal(err)
			}
			many.Want(t, "*3\r\n$3\r\nold\r\n$-1\r\n$-1\r\n", "MGET", "{k}a", "x", "y")
			many.Want(t, "$3\r\nold\r\n", "GET", "{k}a")
			l.Dial(t).Want(t, "$3\r\nold\r\n", "GET", "{k}a")
			reads.Want(t, "$3\r\nold\r\n", "GET", "{k}a")
			paused.waits()
			pipelined.waits()
			for _, admin := range admins {
				admin.Want(t, "+OK\r\n", "CLIENT", "UNPAUSE")
			}
			paused.gets("+OK\r\n")
			pipelined.gets("+OK\r\n")
			if got, err := pipelined.Read(); got != "$3\r\nnew\r\n" {
				t.Errorf("GET behind a paused SET: %q, %v", got, err)
			}
			reads.Want(t, "$3\r\nnew\r\n", "GET", "{k}a")
			reads.Want(t, "+OK\r\n", "SET", "{k}a", "newer")
			many.Want(t, "$5\r\nnewer\r\n", "GET", "{k}a")
		})
	}
}

// TestQuestionsAboutTheServerPassPausedWrites checks that what asks about the server does not wait
// for a paused write, even when it was sent right behind it.
func TestQuestionsAboutTheServerPassPausedWrites(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	for _, question := range []string{"INFO server", "TIME", "CONFIG GET maxclients", "FUNCTION LIST", "DBSIZE",
		"ACL WHOAMI", "SLOWLOG LEN", "SCRIPT EXISTS x"} {
		admin, write := proxytest.Dial(t, server.Addr), l.Dial(t)
		write.Want(t, "+OK\r\n", "SET", "k", "v")
		admin.Want(t, "+OK\r\n", "CLIENT", "PAUSE", "600000", "WRITE")
		if err := write.Send(redistest.Command("SET", "k", "w")); err != nil {
			t.Fatal(err)
		}
		asks := sends(t, l.Addr, strings.Fields(question)...)
		select {
		case got := <-asks.reply:
			if strings.HasPrefix(got, "-") {
				t.Errorf("%s: %q", question, got)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s waits for the paused write", question)
		}
		admin.Want(t, "+OK\r\n", "CLIENT", "UNPAUSE")
		if got, err := write.Read(); got != "+OK\r\n" {
			t.Fatalf("the paused SET: %q, %v", got, err)
		}
	}
}

// TestReadBeforeAScriptIsAnswered checks a read that Redis gets together with an endless script.
// Redis runs the read first, but keeps its reply until the script ends. So the read moves to the
// second link.
func TestReadBeforeAScriptIsAnswered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--busy-reply-threshold", "200")
	l := proxytest.Start(t, []string{server.Addr})
	reader, writer := l.Dial(t), l.Dial(t)
	reader.Want(t, "+OK\r\n", "SET", "k", "v")
	for _, how := range [][]string{{"EVAL", "while true do end", "0"}, {"EVAL_RO", "while true do end", "0"}} {
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		if err := reader.Send(redistest.Command("GET", "k")); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond) // so that it is most likely the first
		if err := writer.Send(redistest.Command(how...)); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		if got, err := reader.Read(); got != "$1\r\nv\r\n" && got != busyReply(t, server.Addr) {
			t.Fatalf("%s: GET was answered %q, %v", how[0], got, err)
		}
		proxytest.Eventually(t, "the script is killed", func() bool { return l.Dial(t).Reply(t, "SCRIPT", "KILL") == "+OK\r\n" })
		if got, err := writer.Read(); !strings.Contains(got, "killed by user") {
			t.Fatalf("%s: got %q, %v", how[0], got, err)
		}
	}
}

// TestOthersGetBusyWhileScriptRuns checks that other clients get Redis's BUSY error while a script
// runs too long, and can kill it.
func TestOthersGetBusyWhileScriptRuns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--busy-reply-threshold", "200")
	l := proxytest.Start(t, []string{server.Addr})
	before := l.Dial(t)
	before.Want(t, "+OK\r\n", "SET", "k", "v")
	for _, how := range [][]string{{"EVAL", "while true do end", "0"}, {"EVAL_RO", "while true do end", "0"},
		{"FCALL", "f", "0"}} {
		if how[0] == "FCALL" {
			library := "#!lua name=lib\nredis.register_function('f', function() while true do end end)"
			before.Want(t, "$3\r\nlib\r\n", "FUNCTION", "LOAD", library)
		}
		script := sends(t, l.Addr, how...)
		proxytest.Eventually(t, "the script is found to take long", func() bool {
			return l.Dial(t).Reply(t, "GET", "k") == busyReply(t, server.Addr)
		})
		proxytest.Eventually(t, "PING says so", func() bool { return before.Reply(t, "PING") == busyReply(t, server.Addr) })
		fresh, direct := l.Dial(t), proxytest.Dial(t, server.Addr)
		for _, cmd := range []string{
			"GET k", "SET k w", "DEL a b", "PING", "ECHO x", "SELECT 9", "CLIENT ID", "CLIENT LIST", "INFO server",
			"SUBSCRIBE c", "COMMAND COUNT", "CONFIG GET maxclients",
			"DBSIZE", "KEYS x", "SCAN 0", "SCRIPT EXISTS x", "FUNCTION LIST", "EVAL return(1) 0", "BLPOP k 0",
			"XREAD BLOCK 0 STREAMS s 0", "WAIT 0 1",
			"NOSUCH", "GET", "PUBLISH c m", "MULTI", "DISCARD", "MULTI", "GET k", "EXEC", "WATCH k", "UNWATCH",
			"AUTH a b", "HELLO 3", "HELLO 2", "RESET", "CLIENT SETNAME x", "LATENCY HISTORY x",
		} {
			args := strings.Fields(cmd)
			got, wanted := fresh.Reply(t, args...), direct.Reply(t, args...)
			if got != wanted && args[0] != "HELLO" { // it has an id
				t.Errorf("%s: %s: got %q, redis says %q", how[0], cmd, got, wanted)
			}
		}
		if got := fresh.Reply(t, "LOCK.ACQUIRE", "lock", "BLOCK", "0"); got != busyReply(t, server.Addr) {
			t.Errorf("LOCK.ACQUIRE: %q", got)
		}
		script.waits()
		if how[0] == "FCALL" {
			fresh.Want(t, proxytest.Dial(t, server.Addr).Reply(t, "SCRIPT", "KILL"), "SCRIPT", "KILL")
			fresh.Want(t, "+OK\r\n", "FUNCTION", "KILL")
		} else {
			fresh.Want(t, proxytest.Dial(t, server.Addr).Reply(t, "FUNCTION", "KILL"), "FUNCTION", "KILL")
			fresh.Want(t, "+OK\r\n", "SCRIPT", "KILL")
		}
		if got := <-script.reply; !strings.Contains(got, "Script killed by user") {
			t.Errorf("the script gave %q", got)
		}
		for _, c := range []*redistest.Client{before, fresh, l.Dial(t)} {
			c.Want(t, "+PONG\r\n", "PING")
			c.Want(t, "+OK\r\n", "SET", "k", "v")
			c.Want(t, "$1\r\nv\r\n", "GET", "k")
		}
	}
}

// busyReply is Redis's current answer to a direct client.
func busyReply(t *testing.T, addr string) string {
	t.Helper()
	c := proxytest.Dial(t, addr)
	defer c.Close()
	got := c.Reply(t, "PING")
	if !strings.HasPrefix(got, "-BUSY ") {
		return fmt.Sprintf("nothing, for Redis says %q", got)
	}
	return got
}

// TestBusyScriptBehindAPassword checks that Leash notices a slow script although Redis answers only
// authenticated clients.
func TestBusyScriptBehindAPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--busy-reply-threshold", "100")
	killer := proxytest.Dial(t, server.Addr)
	killer.Want(t, "+OK\r\n", "CONFIG", "SET", "requirepass", "pw")
	l := proxytest.Start(t, []string{server.Addr}, func(o *proxytest.Options) { o.Upstream.Password = "pw" })
	script, c := l.Dial(t), l.Dial(t)
	for _, one := range []*redistest.Client{script, c} {
		one.Want(t, "+OK\r\n", "AUTH", "pw")
	}
	if err := script.Send(redistest.Command("EVAL", "while true do end", "0")); err != nil {
		t.Fatal(err)
	}
	busy := func() bool { return strings.HasPrefix(c.Reply(t, "PING"), "-BUSY ") }
	proxytest.Eventually(t, "PING says so", busy)
	// the node's own PING comes once a second
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		if !busy() {
			t.Fatal("PING is answered while the script runs")
		}
		time.Sleep(10 * time.Millisecond) // between looks, not for an event
	}
	killer.Want(t, "+OK\r\n", "SCRIPT", "KILL")
	if _, err := script.Read(); err != nil { // only then it has ended
		t.Fatal(err)
	}
	c.Want(t, "+PONG\r\n", "PING")
}
