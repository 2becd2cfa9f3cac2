package operators_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// operator is a client that gets maps.
func operator(t *testing.T, l *proxytest.Leash) func(args ...any) any {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: l.Addr, Protocol: 3, DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	return func(args ...any) any {
		t.Helper()
		reply, err := client.Do(t.Context(), args...).Result()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return reply
	}
}

// adminList returns the records of a list, and how many there are in all.
func adminList(t *testing.T, reply any, name string) (found int64, records []map[any]any) {
	t.Helper()
	all, _ := reply.(map[any]any)
	list, ok := all[name].([]any)
	found, ok2 := all["found"].(int64)
	if !ok || !ok2 {
		t.Fatalf("no list of %s: %v", name, reply)
	}
	for _, r := range list {
		records = append(records, r.(map[any]any))
	}
	return found, records
}

// hasAll fails the test unless the record has these values.
func hasAll(t *testing.T, record map[any]any, want map[string]any) {
	t.Helper()
	for name, value := range want {
		if record[name] != value {
			t.Errorf("%s is %v, want %v, in %v", name, record[name], value, record)
		}
	}
}

// TestAdminLists checks what operators see of nodes, clients, holds and waiters.
func TestAdminLists(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	leash := operator(t, l)
	holder, waiter, latch := l.Dial(t), l.Dial(t), l.Dial(t)
	holder.Want(t, "+OK\r\n", "CLIENT", "SETNAME", "shop")
	number := proxytest.Number(t, proxytest.Token(t, holder, "order:42"))
	proxytest.Token(t, holder, "order:43", "LEASE", "60000", "OWNER", "ann")
	proxytest.Token(t, holder, "cart")
	proxytest.Send(t, waiter, "LOCK.ACQUIRE order:42 BLOCK 0 OWNER bob WRITE\r\n")
	holder.Want(t, ":1\r\n", "LATCH.SET", "start", "1")
	proxytest.Send(t, latch, "LATCH.AWAIT start BLOCK 0\r\n")

	nodes := leash("LEASH", "NODES").([]any)
	if len(nodes) != 1 {
		t.Fatalf("nodes: %v", nodes)
	}
	hasAll(t, nodes[0].(map[any]any), map[string]any{"addr": server.Addr, "role": "master", "state": "usable"})

	found, holds := adminList(t, leash("LEASH", "HOLDS"), "holds")
	if found != 3 || len(holds) != 3 {
		t.Fatalf("holds: %v", holds)
	}
	hasAll(t, holds[0], map[string]any{"key": "order:42", "db": int64(0), "mode": "plain", "token": number, "leased": int64(0)})
	hasAll(t, holds[1], map[string]any{"key": "order:43", "owner": "ann", "leased": int64(1), "waiters": int64(0)})
	if client := holds[0]["client"].(string); !strings.HasSuffix(client, " shop") {
		t.Errorf("the client is %q", client)
	}
	for _, row := range []struct {
		args  []any
		found int64
		keys  []any
	}{
		{[]any{"MATCH", "order:*"}, 2, []any{"order:42", "order:43"}},
		{[]any{"LIMIT", 1, 1}, 3, []any{"order:43"}},
		{[]any{"limit", 1, 10, "match", "order:*"}, 2, []any{"order:43"}},
		{[]any{"LIMIT", 0, 0}, 3, nil},
		{[]any{"LIMIT", 7, 5}, 3, nil},
		{[]any{"MATCH", "order"}, 0, nil},
	} {
		found, holds := adminList(t, leash(append([]any{"LEASH", "HOLDS"}, row.args...)...), "holds")
		var keys []any
		for _, h := range holds {
			keys = append(keys, h["key"])
		}
		if found != row.found || !slices.Equal(keys, row.keys) {
			t.Errorf("HOLDS %v: got %d and %v, want %d and %v", row.args, found, keys, row.found, row.keys)
		}
	}

	var waits []map[any]any
	proxytest.Eventually(t, "two commands wait", func() bool {
		found, waits = adminList(t, leash("LEASH", "WAITERS"), "waiters")
		return found == 2
	})
	byKey := map[any]map[any]any{waits[0]["key"]: waits[0], waits[1]["key"]: waits[1]}
	hasAll(t, byKey["order:42"], map[string]any{"mode": "write", "owner": "bob", "db": int64(0)})
	hasAll(t, byKey["start"], map[string]any{"mode": "", "owner": ""})
	if _, only := adminList(t, leash("LEASH", "WAITERS", "MATCH", "st*", "LIMIT", 0, 5), "waiters"); len(only) != 1 {
		t.Errorf("waiters that match: %v", only)
	}

	found, sessions := adminList(t, leash("LEASH", "SESSIONS", "MATCH", "shop"), "sessions")
	if found != 1 || len(sessions) != 1 {
		t.Fatalf("sessions: %v", sessions)
	}
	hasAll(t, sessions[0], map[string]any{"name": "shop", "user": "default", "holds": int64(3), "command": "latch.set"})
	if found, all := adminList(t, leash("LEASH", "SESSIONS"), "sessions"); found != 4 || len(all) != 4 {
		t.Errorf("sessions: %v", all)
	}

	stats := leash("LEASH", "STATS").(map[any]any)
	hasAll(t, stats, map[string]any{"holds": int64(3), "waiters": int64(2), "sessions": int64(4), "version": "test"})
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "order:42")
	holder.Want(t, ":0\r\n", "LATCH.DOWN", "start")
	proxytest.Eventually(t, "nobody waits", func() bool {
		found, _ := adminList(t, leash("LEASH", "WAITERS"), "waiters")
		return found == 0
	})
}

// TestAdminListsAreComplete checks that the pages of a list have each hold once.
func TestAdminListsAreComplete(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	leash, holder := operator(t, l), l.Dial(t)
	const holds = 1100
	args := []string{"LOCK.MACQUIRE", fmt.Sprint(holds)}
	for i := range holds {
		args = append(args, fmt.Sprintf("k:%d", i))
	}
	holder.Reply(t, args...)
	seen := make(map[any]bool)
	for first := 0; first < holds; first += 400 {
		found, page := adminList(t, leash("LEASH", "HOLDS", "LIMIT", first, 400), "holds")
		if found != holds {
			t.Fatalf("found %d", found)
		}
		for _, h := range page {
			seen[h["key"]] = true
		}
	}
	if len(seen) != holds {
		t.Errorf("%d of %d holds are on a page", len(seen), holds)
	}
}

// TestAdminErrors checks the answers to wrong arguments.
func TestAdminErrors(t *testing.T) {
	t.Parallel()
	client := proxytest.Start(t, []string{redistest.Start(t).Addr}).Dial(t)
	for args, reply := range map[string]string{
		"LEASH":                     "ERR wrong number of arguments for 'leash' command",
		"LEASH NOSUCH":              "ERR unknown subcommand 'NOSUCH'. Try LEASH HELP.",
		"LEASH NODES x":             "ERR wrong number of arguments for 'leash|nodes' command",
		"leash help x":              "ERR wrong number of arguments for 'leash|help' command",
		"LEASH HOLDS LIMIT 0":       "ERR syntax error",
		"LEASH HOLDS MATCH":         "ERR syntax error",
		"LEASH HOLDS order:*":       "ERR syntax error",
		"LEASH WAITERS LIMIT x 1":   "ERR value is not an integer or out of range",
		"LEASH WAITERS LIMIT -1 1":  "ERR value is not an integer or out of range",
		"LEASH HOLDS LIMIT 0 -1":    "ERR LIMIT count is out of range, it should be between 0 and 10000",
		"LEASH HOLDS LIMIT 0 10001": "ERR LIMIT count is out of range, it should be between 0 and 10000",
		"LEASH CONFIG GET":          "ERR wrong number of arguments for 'leash|config' command",
		"LEASH CONFIG SET a":        "ERR syntax error",
		"LEASH CONFIG SET a b c":    "ERR syntax error",
		"LEASH CONFIG REWRITE x":    "ERR unknown subcommand 'REWRITE'. Try LEASH HELP.",
		"LEASH LOGLEVEL loud":       "ERR the level is not one of debug, info, warn, error",
		"LEASH LOGLEVEL warn x":     "ERR wrong number of arguments for 'leash|loglevel' command",
		"LEASH DRAIN":               "ERR this Leash cannot be stopped by a command",
	} {
		client.Want(t, "-"+reply+"\r\n", strings.Fields(args)...)
	}
	client.Want(t, "+OK\r\n", "MULTI")
	client.Want(t, "-ERR 'leash|nodes' is not allowed inside MULTI: Redis does not know it\r\n", "LEASH", "NODES")
	client.Want(t, "+OK\r\n", "DISCARD")
}

// adminRights has a right for each command of LEASH, in the words of ACL SETUSER.
var adminRights = []struct{ command, right string }{
	{"LEASH NODES", "+info"},
	{"LEASH STATS", "+info"},
	{"LEASH SESSIONS", "+client|list"},
	{"LEASH HOLDS", "+client|list"},
	{"LEASH WAITERS", "+client|list"},
	{"LEASH LOGLEVEL", "+config|get"},
	{"LEASH LOGLEVEL warn", "+config"},
	{"LEASH SLOWLOG GET", "+slowlog|len"},
	{"LEASH SLOWLOG RESET", "+slowlog|len +config|set"},
	{"LEASH CONFIG GET *", "+config|get"},
	{"LEASH CONFIG SET log-level warn", "+config|set"},
	{"LEASH DRAIN", "+client|kill"},
}

// TestAdminNeedsRights checks that a user needs exactly the right that the page names.
func TestAdminNeedsRights(t *testing.T) {
	t.Parallel()
	server := proxytest.Secured(t)
	admin := proxytest.Dial(t, server.Addr)
	admin.Want(t, "+OK\r\n", "AUTH", "secret")
	stopped := make(chan struct{}, 1)
	l := proxytest.Start(t, []string{server.Addr}, proxytest.WithPassword, func(o *proxytest.Options) {
		o.Front.Stop = func() { stopped <- struct{}{} }
	})
	stranger := l.Dial(t)
	for i, row := range adminRights {
		args := strings.Fields(row.command)
		stranger.Want(t, "-NOAUTH Authentication required.\r\n", args...)
		for right, allowed := range map[string]bool{"+@all -@dangerous": false, "-@all " + row.right: true} {
			user := fmt.Sprintf("u%d%v", i, allowed)
			set := append([]string{"ACL", "SETUSER", user, "on", ">pw", "~*"}, strings.Fields(right)...)
			admin.Want(t, "+OK\r\n", set...)
			client := l.Dial(t)
			client.Want(t, "+OK\r\n", "AUTH", user, "pw")
			reply := client.Reply(t, args...)
			if denied := strings.HasPrefix(reply, "-NOPERM "); denied == allowed || !denied && reply[0] == '-' {
				t.Errorf("%s with %s: got %.80q", row.command, right, reply)
			}
			if help := client.Reply(t, "LEASH", "HELP"); help[0] != '*' {
				t.Errorf("LEASH HELP with %s: got %.80q", right, help)
			}
		}
	}
	stranger.Want(t, "-NOAUTH Authentication required.\r\n", "LEASH", "HELP")
	stranger.Want(t, "-NOAUTH Authentication required.\r\n", "LEASH")
	<-stopped
}

// TestAdminInCommand checks that COMMAND knows LEASH and its subcommands as it knows CONFIG's.
func TestAdminInCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	leash := operator(t, l)
	docs := leash("COMMAND", "DOCS", "leash").(map[any]any)["leash"].(map[any]any)
	subs, _ := docs["subcommands"].(map[any]any)
	list := leash("COMMAND", "LIST", "FILTERBY", "PATTERN", "leash|*").([]any)
	if len(subs) == 0 || len(subs) != len(list) {
		t.Fatalf("COMMAND DOCS has %v, COMMAND LIST %v", subs, list)
	}
	for _, name := range list {
		info := leash("COMMAND", "INFO", name).([]any)[0].([]any)
		one, ok := leash("COMMAND", "DOCS", name).(map[any]any)[name].(map[any]any)
		if subs[name] == nil || info[0] != name || !ok || one["summary"] == "" {
			t.Errorf("%v: %v, %v, %v", name, subs[name], info, one)
		}
	}
	for _, name := range []string{"leash|nosuch", "leash|", "leash|nodes|x"} {
		if got := leash("COMMAND", "INFO", name).([]any)[0]; got != nil {
			t.Errorf("COMMAND INFO %s: %v", name, got)
		}
	}
	whole := leash("COMMAND", "INFO", "leash").([]any)[0].([]any)
	config := leash("COMMAND", "INFO", "config").([]any)[0].([]any)
	if len(whole) != len(config) || len(whole[9].([]any)) != len(list) {
		t.Errorf("COMMAND INFO leash: %v", whole)
	}
}
