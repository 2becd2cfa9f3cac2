package scripts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/slots"
)

// noScript is Redis's answer to EVALSHA when it does not have the script.
const noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"

// TestScripts checks that a script is loaded on every master.
func TestScripts(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	script := "return {KEYS[1] or 'none', ARGV[1] or 'none'}"
	sha := proxytest.Digest(script)
	client.Want(t, "*2\r\n:0\r\n:0\r\n", "SCRIPT", "EXISTS", sha, proxytest.Digest("x"))
	client.Want(t, "$40\r\n"+sha+"\r\n", "SCRIPT", "LOAD", script)
	client.Want(t, "*2\r\n:1\r\n:0\r\n", "SCRIPT", "EXISTS", sha, proxytest.Digest("x"))
	for i := range 20 {
		key := fmt.Sprintf("k%d", i)
		client.Want(t, fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$1\r\na\r\n", len(key), key), "EVALSHA", sha, "1", key, "a")
	}
	client.Want(t, "*2\r\n$4\r\nnone\r\n$4\r\nnone\r\n", "EVALSHA_RO", strings.ToUpper(sha), "0")
	// One node lacks it, so not all have it.
	if err := c.Nodes[1].Client().ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	client.Want(t, "*1\r\n:0\r\n", "SCRIPT", "EXISTS", sha)
	client.Want(t, "+OK\r\n", "SCRIPT", "FLUSH", "SYNC")
	for _, n := range c.Nodes {
		if n.Client().ScriptExists(t.Context(), sha).Val()[0] {
			t.Error("the script is still there")
		}
	}
	for _, args := range [][]string{
		{"SCRIPT", "LOAD"}, {"SCRIPT", "LOAD", "return"}, {"SCRIPT", "EXISTS"}, {"SCRIPT", "FLUSH", "FOO"},
		{"SCRIPT", "FLUSH", "ASYNC", "SYNC"},
		{"SCRIPT", "KILL"}, {"SCRIPT", "KILL", "x"}, {"SCRIPT", "HELP"}, {"SCRIPT", "NOPE"}, {"SCRIPT"},
		{"EVALSHA", sha, "0"}, {"EVALSHA", "x", "0"},
		{"FUNCTION", "KILL"}, {"FUNCTION", "FLUSH", "FOO"}, {"FUNCTION", "DELETE", "nope"},
		{"FUNCTION", "LOAD", "x"}, {"FUNCTION", "RESTORE", "x"},
		{"FUNCTION", "LIST"}, {"FUNCTION", "DUMP"}, {"FUNCTION", "STATS"}, {"FCALL", "nope", "0"},
		{"FCALL_RO", "nope", "x"},
		{"EVAL", "return 1"}, {"EVAL", "return 1", "x"}, {"EVAL", "return 1", "-1"}, {"EVAL", "return 1", "5", "k"},
		{"EVAL", "return 1", "2", "a", "b"},
	} {
		if got, wanted := client.Reply(t, args...), proxytest.Dial(t, c.Addrs()[0]).Reply(t, args...); got != wanted {
			t.Errorf("%q: got %q, redis says %q", args, got, wanted)
		}
	}
	if got := client.Reply(t, "SCRIPT", "DEBUG", "YES"); !strings.HasPrefix(got,
		"-ERR 'script|debug' is refused by leash: ") {
		t.Errorf("SCRIPT DEBUG: %q", got)
	}
}

// TestFunctions checks that a library is loaded on and deleted from every master.
func TestFunctions(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	library := "#!lua name=lib\nredis.register_function{function_name='f', callback=function(keys, args) return keys[1] or 'none' end, flags={'no-writes'}}"
	call := func(wanted string) {
		t.Helper()
		for i := range 20 {
			key := fmt.Sprintf("key:%02d", i)
			client.Want(t, strings.ReplaceAll(wanted, "KEY", key), "FCALL_RO", "f", "1", key)
		}
	}
	client.Want(t, "$3\r\nlib\r\n", "FUNCTION", "LOAD", library)
	call("$6\r\nKEY\r\n")
	client.Want(t, "$4\r\nnone\r\n", "FCALL", "f", "0")
	client.Want(t, "-ERR Library 'lib' already exists\r\n", "FUNCTION", "LOAD", library)
	dump := client.Reply(t, "FUNCTION", "DUMP")
	payload := dump[strings.Index(dump, "\n")+1 : len(dump)-2]
	client.Want(t, "+OK\r\n", "FUNCTION", "DELETE", "lib")
	call("-ERR Function not found\r\n")
	client.Want(t, "+OK\r\n", "FUNCTION", "RESTORE", payload)
	call("$6\r\nKEY\r\n")
	// One master lacks it, so it cannot be deleted there.
	if err := c.Nodes[2].Client().FunctionFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	client.Want(t, "-ERR Library not found\r\n", "FUNCTION", "DELETE", "lib")
	client.Want(t, "+OK\r\n", "FUNCTION", "FLUSH")
	call("-ERR Function not found\r\n")
}

// TestScriptKill checks that SCRIPT KILL ends an endless script on any node, although links wait
// behind it. A script that has written is not killed.
func TestScriptKill(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Args: []string{"--busy-reply-threshold", "100"}})
	single := redistest.Start(t, "--busy-reply-threshold", "100")
	for name, addrs := range map[string][]string{"cluster": c.Addrs(), "standalone": {single.Addr}} {
		t.Run(name, func(t *testing.T) {
			l := proxytest.Start(t, addrs)
			for i := range 3 {
				runs, kills := l.Dial(t), l.Dial(t)
				if i > 0 {
					kills.Reply(t, "HELLO", "3")
				}
				kills.Want(t, "-NOTBUSY No scripts in execution right now.\r\n", "SCRIPT", "KILL")
				if err := runs.Send(redistest.Command("EVAL", "while true do end", "1",
					fmt.Sprintf("k%d", i))); err != nil {
					t.Fatal(err)
				}
				proxytest.Eventually(t, "the script is killed", func() bool {
					return kills.Reply(t, "SCRIPT", "KILL") == "+OK\r\n"
				})
				if got, err := runs.Read(); err != nil || !strings.Contains(got,
					"Script killed by user with SCRIPT KILL") {
					t.Errorf("the script gave %q, %v", got, err)
				}
			}
		})
	}
	t.Run("unkillable", func(t *testing.T) {
		one := redistest.Start(t, "--busy-reply-threshold", "100")
		l := proxytest.Start(t, []string{one.Addr})
		runs, kills := l.Dial(t), l.Dial(t)
		script := "redis.call('SET', KEYS[1], 'x') local t = redis.call('TIME')[1] while redis.call('TIME')[1] - t < 3 do end return 'ended'"
		if err := runs.Send(redistest.Command("EVAL", script, "1", "k")); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "it is unkillable", func() bool {
			return strings.HasPrefix(kills.Reply(t, "SCRIPT", "KILL"), "-UNKILLABLE ")
		})
		if got, err := runs.Read(); got != "$5\r\nended\r\n" {
			t.Errorf("the script gave %q, %v", got, err)
		}
	})
}

// TestMissingScriptIsReloaded checks that Leash loads a known script on a node that joined later or
// was restarted. It loads none that was flushed.
func TestMissingScriptIsReloaded(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	loaded, run := "return redis.call('INCR', KEYS[1])", "return redis.call('INCRBY', KEYS[1], 10)"
	client.Want(t, "$40\r\n"+proxytest.Digest(loaded)+"\r\n", "SCRIPT", "LOAD", loaded)
	client.Want(t, ":10\r\n", "EVAL", run, "1", "elsewhere")
	forget := func() {
		for _, n := range c.Nodes {
			if err := n.Client().ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	forget()
	client.Want(t, ":1\r\n", "EVALSHA", proxytest.Digest(loaded), "1", "k")
	client.Want(t, ":11\r\n", "EVALSHA", strings.ToUpper(proxytest.Digest(run)), "1", "k")
	client.Want(t, ":12\r\n", "EVALSHA", proxytest.Digest(loaded), "1", "k")
	client.Want(t, "-NOSCRIPT No matching script. Please use EVAL.\r\n", "EVALSHA", proxytest.Digest("return 'never seen'"),
		"1", "k")
	client.Want(t, "+OK\r\n", "SCRIPT", "FLUSH")
	client.Want(t, "-NOSCRIPT No matching script. Please use EVAL.\r\n", "EVALSHA", proxytest.Digest(loaded), "1", "k")
	got := proxytest.Exchange(t, l.Addr, redistest.Command("EVAL", run, "1", "k")+redistest.Command("SCRIPT", "FLUSH")+
		redistest.Command("EVALSHA", proxytest.Digest(run), "1", "k"))
	if got != ":22\r\n+OK\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n" {
		t.Errorf("behind SCRIPT FLUSH: %q", got)
	}
	// Each round loads another script: the cache of Leash adds a known one only once.
	for i := range 200 {
		text := fmt.Sprintf("return %d", i)
		got := proxytest.Exchange(t, l.Addr, redistest.Command("SCRIPT", "LOAD", text)+redistest.Command("SCRIPT", "FLUSH")+
			redistest.Command("EVALSHA", proxytest.Digest(text), "1", "k"))
		if !strings.HasSuffix(got, "\r\n+OK\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n") {
			t.Fatalf("SCRIPT FLUSH right behind SCRIPT LOAD, round %d: %q", i, got)
		}
	}
}

// TestScriptsInsideTransactions checks that an EVALSHA in a transaction finds a script that Leash
// has seen, also one of a transaction, on a node that never had the script or has lost it.
func TestScriptsInsideTransactions(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		client := l.Dial(t)
		for text, pipelined := range map[string]bool{
			"return redis.call('INCR', KEYS[1])":      true,
			"return redis.call('INCRBY', KEYS[1], 1)": false,
		} {
			if pipelined {
				client.Want(t, "+OK\r\n", "MULTI")
				client.Want(t, "+QUEUED\r\n", "EVAL", text, "1", text)
				client.Want(t, "*1\r\n:1\r\n", "EXEC")
			} else {
				client.Want(t, ":1\r\n", "EVAL", text, "1", text)
			}
			for _, n := range nodes {
				if err := n.Client().ScriptFlush(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 20 { // keys on every node
				key := fmt.Sprint(pipelined, i)
				commands := [][]string{
					{"MULTI"}, {"SET", key, "5"}, {"EVALSHA", strings.ToUpper(proxytest.Digest(text)), "1", key}, {"EXEC"},
				}
				raw, got := "", ""
				for _, c := range commands {
					if raw += redistest.Command(c...); !pipelined {
						got += client.Reply(t, c...)
					}
				}
				if pipelined {
					got = proxytest.Exchange(t, l.Addr, raw)
				}
				if got != "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:6\r\n" {
					t.Fatalf("pipelined %v: %q", pipelined, got)
				}
			}
		}
	})
}

// TestScriptReloadKeepsOrder checks that an EVALSHA does not run behind a later command on its
// slot.
func TestScriptReloadKeepsOrder(t *testing.T) {
	t.Parallel()
	for name, addrs := range map[string][]string{
		"cluster":    redistest.StartCluster(t, redistest.ClusterOptions{}).Addrs(),
		"standalone": {redistest.Start(t).Addr},
	} {
		l := proxytest.Start(t, addrs)
		client := l.Dial(t)
		script := "return redis.call('APPEND', KEYS[1], ARGV[1])"
		client.Want(t, ":1\r\n", "EVAL", script, "1", "k", "a")
		flush := func() {
			for _, addr := range addrs {
				proxytest.Dial(t, addr).Want(t, "+OK\r\n", "SCRIPT", "FLUSH")
			}
		}
		for range 20 {
			flush()
			client.Want(t, "+OK\r\n", "SET", "k", "a")
			raw := redistest.Command("EVALSHA", proxytest.Digest(script), "1", "k", "b") +
				redistest.Command("APPEND", "k", "c") + redistest.Command("GET", "k")
			switch got := proxytest.Exchange(t, l.Addr, raw); got {
			case ":2\r\n:3\r\n$3\r\nabc\r\n", noScript + ":2\r\n$2\r\nac\r\n":
			default:
				t.Fatalf("%s: %q", name, got)
			}
		}
	}
}

// TestScriptReloadNeedsRights checks that no script is loaded for a user who may not load scripts.
// A script that returns NOSCRIPT itself runs once.
func TestScriptReloadNeedsRights(t *testing.T) {
	one := redistest.Start(t)
	l := proxytest.Start(t, []string{one.Addr})
	client, user := l.Dial(t), l.Dial(t)
	script := "return 'secret'"
	client.Want(t, "$6\r\nsecret\r\n", "EVAL", script, "0")
	if err := one.Client().Do(t.Context(), "ACL", "SETUSER", "u", "on", ">p", "~*", "+evalsha").Err(); err != nil {
		t.Fatal(err)
	}
	user.Want(t, "+OK\r\n", "AUTH", "u", "p")
	if err := one.Client().ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	user.Want(t, noScript, "EVALSHA", proxytest.Digest(script), "0")
	client.Want(t, "$6\r\nsecret\r\n", "EVALSHA", proxytest.Digest(script), "0")
	user.Want(t, "$6\r\nsecret\r\n", "EVALSHA", proxytest.Digest(script), "0")

	for i, fake := range []string{
		"redis.call('INCR', KEYS[1]) return redis.error_reply('NOSCRIPT No matching script. Please use EVAL.')",
		"redis.call('INCR', KEYS[1]) return redis.error_reply(ARGV[1])",
	} {
		key := fmt.Sprint("n", i)
		client.Want(t, "$40\r\n"+proxytest.Digest(fake)+"\r\n", "SCRIPT", "LOAD", fake)
		client.Want(t, noScript, "EVALSHA", proxytest.Digest(fake), "1", key, strings.TrimSpace(noScript[1:]))
		client.Want(t, "$1\r\n1\r\n", "GET", key)
	}
}

// TestLateNodeGetsScripts checks that a node that joined after SCRIPT LOAD can run the script when
// slots move to it.
func TestLateNodeGetsScripts(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 15 * time.Second})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	script := "return redis.call('GET', KEYS[1])"
	client.Want(t, "$40\r\n"+proxytest.Digest(script)+"\r\n", "SCRIPT", "LOAD", script)
	key := proxytest.KeyOn(t, c, c.Nodes[0], "k")
	client.Want(t, "+OK\r\n", "SET", key, "v")
	late, err := c.AddMaster()
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.BeginMove(int(slots.Of([]byte(key))), late)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.MoveKeys(-1); err != nil {
		t.Fatal(err)
	}
	client.Want(t, "$1\r\nv\r\n", "EVALSHA", proxytest.Digest(script), "1", key) // ASK
	if err := late.Client().ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
	client.Want(t, "$1\r\nv\r\n", "EVALSHA", proxytest.Digest(script), "1", key) // MOVED
}

// TestFlushInTransactionForgets checks that a script is not loaded again after SCRIPT FLUSH in a
// transaction. A script of a transaction that was not executed is not loaded either.
func TestFlushInTransactionForgets(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	c := l.Dial(t)
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "EVAL", "return 1", "0")
	c.Want(t, "+OK\r\n", "DISCARD")
	c.Want(t, noScript, "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0")
	c.Want(t, ":1\r\n", "EVAL", "return 1", "0")
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "SCRIPT", "FLUSH")
	c.Want(t, "*1\r\n+OK\r\n", "EXEC")
	c.Want(t, noScript, "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0")
}

// TestScriptOfWrongEvalIsNotKept checks that Leash does not keep the script of a wrong EVAL,
// because Redis did not run it either.
func TestScriptOfWrongEvalIsNotKept(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	c := l.Dial(t)
	for _, numkeys := range []string{"1", "-1", "x", "1.5"} {
		if got := c.Reply(t, "EVAL", "return 1", numkeys); got[0] != '-' {
			t.Fatalf("EVAL with %s keys: %q", numkeys, got)
		}
		c.Want(t, noScript, "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0")
	}
}
