package operators_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy"
)

// slowest returns the entries of LEASH SLOWLOG for a command, the newest first.
func slowest(t *testing.T, leash func(args ...any) any, name string) (entries []map[any]any) {
	t.Helper()
	for _, one := range leash("LEASH", "SLOWLOG", "GET", -1).([]any) {
		if e := one.(map[any]any); e["arguments"].([]any)[0] == name {
			entries = append(entries, e)
		}
	}
	return entries
}

// TestSlowlog keeps every command, and checks where the time of each was spent.
func TestSlowlog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr}, func(o *proxytest.Options) {
		o.Front.SlowerThan, o.Front.SlowLength = 1, 1000
	})
	leash, client, other := operator(t, l), l.Dial(t), l.Dial(t)
	client.Want(t, "+OK\r\n", "CLIENT", "SETNAME", "shop")
	client.Want(t, "+OK\r\n", "SET", "k", "v")
	e := slowest(t, leash, "SET")[0]
	hasAll(t, e, map[string]any{"node": server.Addr, "user": "default", "waited-us": int64(0)})
	if fmt.Sprint(e["arguments"]) != "[SET k v]" || e["client"].(string) != client.Conn().LocalAddr().String()+" shop" {
		t.Errorf("got %v", e)
	}

	const pause = 4 * time.Second // a busy machine delays a command by less than half of it
	if err := server.Client().Do(t.Context(), "CLIENT", "PAUSE", pause.Milliseconds(), "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	client.Want(t, "$1\r\nv\r\n", "GET", "k")
	if e := slowest(t, leash, "GET")[0]; e["redis-us"].(int64) < pause.Microseconds()/2 ||
		e["total-us"].(int64) < e["redis-us"].(int64) {
		t.Errorf("a command that Redis delays: %v", e)
	}

	client.Want(t, "+OK\r\n", "CLIENT", "PAUSE", fmt.Sprint(pause.Milliseconds()), "ALL")
	client.Want(t, ":2\r\n", "APPEND", "k", "w")
	if e := slowest(t, leash, "APPEND")[0]; e["queued-us"].(int64) < pause.Microseconds()/2 {
		t.Errorf("a command that Leash delays: %v", e)
	}

	proxytest.Token(t, client, "lock")
	proxytest.Send(t, other, "LOCK.ACQUIRE lock BLOCK 0\r\n")
	proxytest.Eventually(t, "it waits", func() bool {
		found, _ := adminList(t, leash("LEASH", "WAITERS"), "waiters")
		return found == 1
	})
	const wait = 50 * time.Millisecond
	time.Sleep(wait) // what is measured
	client.Want(t, ":1\r\n", "LOCK.RELEASE", "lock")
	if got, err := other.Read(); err != nil || got[0] != ':' {
		t.Fatalf("got %q, %v", got, err)
	}
	if e := slowest(t, leash, "LOCK.ACQUIRE")[0]; e["waited-us"].(int64) < wait.Microseconds()/2 || e["node"] != "" {
		t.Errorf("a command that waits for a lock: %v", e)
	}
}

// TestSlowlogCommands checks the answers of the other subcommands, and that no password is kept.
func TestSlowlogCommands(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr}, func(o *proxytest.Options) {
		o.Front.SlowerThan, o.Front.SlowLength = 1, 3
	})
	client, leash := l.Dial(t), operator(t, l)
	client.Want(t, "+OK\r\n", "ACL", "SETUSER", "ann", "on", ">secret", "+@all", "~*")
	if e := slowest(t, leash, "ACL")[0]; fmt.Sprint(e["arguments"]) != "[ACL SETUSER (redacted) (redacted) (redacted) (redacted) (redacted)]" {
		t.Errorf("got %v", e)
	}
	client.Want(t, "+OK\r\n", "AUTH", "ann", "secret")
	client.Want(t, "*-1\r\n", "BLPOP", "none", "0.01")
	if len(slowest(t, leash, "AUTH"))+len(slowest(t, leash, "BLPOP")) > 0 {
		t.Error("AUTH or a command that blocks is kept")
	}
	for i := range 5 {
		client.Want(t, fmt.Sprintf(":%d\r\n", i+1), "INCR", "n")
	}
	client.Want(t, ":3\r\n", "LEASH", "SLOWLOG", "LEN")
	all := slowest(t, leash, "INCR")
	if ids := []any{all[0]["id"], all[1]["id"], all[2]["id"]}; len(all) != 3 || !slices.Equal(ids, []any{int64(5), int64(4), int64(3)}) {
		t.Errorf("got %v", all)
	}
	if all[0]["user"] != "ann" {
		t.Errorf("the user is %v", all[0]["user"])
	}
	l.Change(proxy.Settings{SlowerThan: -1})
	client.Want(t, "+OK\r\n", "LEASH", "SLOWLOG", "RESET")
	client.Want(t, "+OK\r\n", "SET", "n", "1")
	client.Want(t, ":0\r\n", "LEASH", "SLOWLOG", "LEN")
	for args, reply := range map[string][]string{
		"ERR count should be greater than or equal to -1":                                        {"GET", "x"},
		"ERR unknown subcommand or wrong number of arguments for 'GET'. Try LEASH SLOWLOG HELP.": {"GET", "1", "2"},
		"ERR unknown subcommand or wrong number of arguments for 'len'. Try LEASH SLOWLOG HELP.": {"len", "1"},
	} {
		client.Want(t, "-"+args+"\r\n", append([]string{"LEASH", "SLOWLOG"}, reply...)...)
	}
}
