package proxy

import (
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/slots"
)

// noScript is Redis's answer to EVALSHA when it does not have the script.
const noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"

func digest(script string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(script))) }

// TestScripts checks that a script is loaded on every master.
func TestScripts(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, c.Addrs())
	client := l.dial(t)
	script := "return {KEYS[1] or 'none', ARGV[1] or 'none'}"
	sha := digest(script)
	want(t, client, "*2\r\n:0\r\n:0\r\n", "SCRIPT", "EXISTS", sha, digest("x"))
	want(t, client, "$40\r\n"+sha+"\r\n", "SCRIPT", "LOAD", script)
	want(t, client, "*2\r\n:1\r\n:0\r\n", "SCRIPT", "EXISTS", sha, digest("x"))
	for i := range 20 {
		key := fmt.Sprintf("k%d", i)
		want(t, client, fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$1\r\na\r\n", len(key), key), "EVALSHA", sha, "1", key, "a")
	}
	want(t, client, "*2\r\n$4\r\nnone\r\n$4\r\nnone\r\n", "EVALSHA_RO", strings.ToUpper(sha), "0")
	// One node lacks it, so not all have it.
	if err := c.Nodes[1].Client().ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	want(t, client, "*1\r\n:0\r\n", "SCRIPT", "EXISTS", sha)
	want(t, client, "+OK\r\n", "SCRIPT", "FLUSH", "SYNC")
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
		if got, wanted := do(t, client, args...), do(t, dialAddr(t, c.Addrs()[0]), args...); got != wanted {
			t.Errorf("%q: got %q, redis says %q", args, got, wanted)
		}
	}
	if got := do(t, client, "SCRIPT", "DEBUG", "YES"); !strings.HasPrefix(got,
		"-ERR 'script|debug' is refused by leash: ") {
		t.Errorf("SCRIPT DEBUG: %q", got)
	}
}

// TestFunctions checks that a library is loaded on and deleted from every master.
func TestFunctions(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, c.Addrs())
	client := l.dial(t)
	library := "#!lua name=lib\nredis.register_function{function_name='f', callback=function(keys, args) return keys[1] or 'none' end, flags={'no-writes'}}"
	call := func(wanted string) {
		t.Helper()
		for i := range 20 {
			key := fmt.Sprintf("key:%02d", i)
			want(t, client, strings.ReplaceAll(wanted, "KEY", key), "FCALL_RO", "f", "1", key)
		}
	}
	want(t, client, "$3\r\nlib\r\n", "FUNCTION", "LOAD", library)
	call("$6\r\nKEY\r\n")
	want(t, client, "$4\r\nnone\r\n", "FCALL", "f", "0")
	want(t, client, "-ERR Library 'lib' already exists\r\n", "FUNCTION", "LOAD", library)
	dump := do(t, client, "FUNCTION", "DUMP")
	payload := dump[strings.Index(dump, "\n")+1 : len(dump)-2]
	want(t, client, "+OK\r\n", "FUNCTION", "DELETE", "lib")
	call("-ERR Function not found\r\n")
	want(t, client, "+OK\r\n", "FUNCTION", "RESTORE", payload)
	call("$6\r\nKEY\r\n")
	// One master lacks it, so it cannot be deleted there.
	if err := c.Nodes[2].Client().FunctionFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	want(t, client, "-ERR Library not found\r\n", "FUNCTION", "DELETE", "lib")
	want(t, client, "+OK\r\n", "FUNCTION", "FLUSH")
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
			l := startLeash(t, addrs)
			for i := range 3 {
				runs, kills := l.dial(t), l.dial(t)
				if i > 0 {
					do(t, kills, "HELLO", "3")
				}
				want(t, kills, "-NOTBUSY No scripts in execution right now.\r\n", "SCRIPT", "KILL")
				if err := runs.Send(redistest.Command("EVAL", "while true do end", "1",
					fmt.Sprintf("k%d", i))); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the script is killed", func() bool {
					return do(t, kills, "SCRIPT", "KILL") == "+OK\r\n"
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
		l := startLeash(t, []string{one.Addr})
		runs, kills := l.dial(t), l.dial(t)
		script := "redis.call('SET', KEYS[1], 'x') local t = redis.call('TIME')[1] while redis.call('TIME')[1] - t < 3 do end return 'ended'"
		if err := runs.Send(redistest.Command("EVAL", script, "1", "k")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is unkillable", func() bool {
			return strings.HasPrefix(do(t, kills, "SCRIPT", "KILL"), "-UNKILLABLE ")
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
	l := startLeash(t, c.Addrs())
	client := l.dial(t)
	loaded, run := "return redis.call('INCR', KEYS[1])", "return redis.call('INCRBY', KEYS[1], 10)"
	want(t, client, "$40\r\n"+digest(loaded)+"\r\n", "SCRIPT", "LOAD", loaded)
	want(t, client, ":10\r\n", "EVAL", run, "1", "elsewhere")
	forget := func() {
		for _, n := range c.Nodes {
			if err := n.Client().ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	forget()
	want(t, client, ":1\r\n", "EVALSHA", digest(loaded), "1", "k")
	want(t, client, ":11\r\n", "EVALSHA", strings.ToUpper(digest(run)), "1", "k")
	want(t, client, ":12\r\n", "EVALSHA", digest(loaded), "1", "k")
	want(t, client, "-NOSCRIPT No matching script. Please use EVAL.\r\n", "EVALSHA", digest("return 'never seen'"),
		"1", "k")
	want(t, client, "+OK\r\n", "SCRIPT", "FLUSH")
	want(t, client, "-NOSCRIPT No matching script. Please use EVAL.\r\n", "EVALSHA", digest(loaded), "1", "k")
	got := exchange(t, l.addr, redistest.Command("EVAL", run, "1", "k")+redistest.Command("SCRIPT", "FLUSH")+
		redistest.Command("EVALSHA", digest(run), "1", "k"))
	if got != ":22\r\n+OK\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n" {
		t.Errorf("behind SCRIPT FLUSH: %q", got)
	}
	// Each round loads another script: the cache of Leash adds a known one only once.
	for i := range 200 {
		text := fmt.Sprintf("return %d", i)
		got := exchange(t, l.addr, redistest.Command("SCRIPT", "LOAD", text)+redistest.Command("SCRIPT", "FLUSH")+
			redistest.Command("EVALSHA", digest(text), "1", "k"))
		if !strings.HasSuffix(got, "\r\n+OK\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n") {
			t.Fatalf("SCRIPT FLUSH right behind SCRIPT LOAD, round %d: %q", i, got)
		}
	}
}

// TestScriptReloadKeepsOrder checks that an EVALSHA does not run behind a later command on its
// slot.
func TestScriptReloadKeepsOrder(t *testing.T) {
	t.Parallel()
	for name, addrs := range map[string][]string{
		"cluster":    redistest.StartCluster(t, redistest.ClusterOptions{}).Addrs(),
		"standalone": {redistest.Start(t).Addr},
	} {
		l := startLeash(t, addrs)
		client := l.dial(t)
		script := "return redis.call('APPEND', KEYS[1], ARGV[1])"
		want(t, client, ":1\r\n", "EVAL", script, "1", "k", "a")
		flush := func() {
			for _, addr := range addrs {
				want(t, dialAddr(t, addr), "+OK\r\n", "SCRIPT", "FLUSH")
			}
		}
		for range 20 {
			flush()
			want(t, client, "+OK\r\n", "SET", "k", "a")
			raw := redistest.Command("EVALSHA", digest(script), "1", "k", "b") +
				redistest.Command("APPEND", "k", "c") + redistest.Command("GET", "k")
			switch got := exchange(t, l.addr, raw); got {
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
	l := startLeash(t, []string{one.Addr})
	client, user := l.dial(t), l.dial(t)
	script := "return 'secret'"
	want(t, client, "$6\r\nsecret\r\n", "EVAL", script, "0")
	if err := one.Client().Do(t.Context(), "ACL", "SETUSER", "u", "on", ">p", "~*", "+evalsha").Err(); err != nil {
		t.Fatal(err)
	}
	want(t, user, "+OK\r\n", "AUTH", "u", "p")
	if err := one.Client().ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	want(t, user, noScript, "EVALSHA", digest(script), "0")
	want(t, client, "$6\r\nsecret\r\n", "EVALSHA", digest(script), "0")
	want(t, user, "$6\r\nsecret\r\n", "EVALSHA", digest(script), "0")

	for i, fake := range []string{
		"redis.call('INCR', KEYS[1]) return redis.error_reply('NOSCRIPT No matching script. Please use EVAL.')",
		"redis.call('INCR', KEYS[1]) return redis.error_reply(ARGV[1])",
	} {
		key := fmt.Sprint("n", i)
		want(t, client, "$40\r\n"+digest(fake)+"\r\n", "SCRIPT", "LOAD", fake)
		want(t, client, noScript, "EVALSHA", digest(fake), "1", key, strings.TrimSpace(noScript[1:]))
		want(t, client, "$1\r\n1\r\n", "GET", key)
	}
}

// TestLateNodeGetsScripts checks that a node that joined after SCRIPT LOAD can run the script when
// slots move to it.
func TestLateNodeGetsScripts(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 15 * time.Second})
	l := startLeash(t, c.Addrs())
	client := l.dial(t)
	script := "return redis.call('GET', KEYS[1])"
	want(t, client, "$40\r\n"+digest(script)+"\r\n", "SCRIPT", "LOAD", script)
	key := keyOn(t, c, c.Nodes[0], "k")
	want(t, client, "+OK\r\n", "SET", key, "v")
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
	want(t, client, "$1\r\nv\r\n", "EVALSHA", digest(script), "1", key) // ASK
	if err := late.Client().ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
	want(t, client, "$1\r\nv\r\n", "EVALSHA", digest(script), "1", key) // MOVED
}

// TestFlushInTransactionForgets checks that a script is not loaded again after SCRIPT FLUSH in a
// transaction.
func TestFlushInTransactionForgets(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	c := l.dial(t)
	want(t, c, ":1\r\n", "EVAL", "return 1", "0")
	want(t, c, "+OK\r\n", "MULTI")
	want(t, c, "+QUEUED\r\n", "SCRIPT", "FLUSH")
	want(t, c, "*1\r\n+OK\r\n", "EXEC")
	want(t, c, noScript, "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0")
}

// TestScriptOfWrongEvalIsNotKept checks that Leash does not keep the script of a wrong EVAL,
// because Redis did not run it either.
func TestScriptOfWrongEvalIsNotKept(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	c := l.dial(t)
	for _, numkeys := range []string{"1", "-1", "x", "1.5"} {
		if got := do(t, c, "EVAL", "return 1", numkeys); got[0] != '-' {
			t.Fatalf("EVAL with %s keys: %q", numkeys, got)
		}
		want(t, c, noScript, "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0")
	}
}
