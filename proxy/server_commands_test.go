package proxy_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/command"
)

// TestServerCommandsAsRedis compares commands about a server that Leash relays, merges or answers
// with the server's own replies.
func TestServerCommandsAsRedis(t *testing.T) {
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	// a second server, because users and settings change
	redis, client := proxytest.Dial(t, redistest.Start(t).Addr), l.Dial(t)
	for _, hello := range []string{"2", "3"} {
		redis.Reply(t, "HELLO", hello)
		client.Reply(t, "HELLO", hello)
		for _, cmd := range []string{
			"ROLE", "ROLE x", "TIME x", "LOLWUT VERSION 9", "LASTSAVE x", "BGSAVE x", "MEMORY PURGE",
			"MEMORY DOCTOR", "MEMORY STATS x", "MEMORY X", "MEMORY HELP",
			"MODULE LIST", "MODULE LOAD", "PFSELFTEST x", "DEBUG", "OBJECT ENCODING nokey",
			"OBJECT HELP", "OBJECT FREQ a", "OBJECT X",
			"CONFIG GET maxmemory", "CONFIG GET", "CONFIG SET a", "CONFIG SET nosuch 1", "CONFIG SET maxmemory x",
			"CONFIG SET maxmemory 100mb", "CONFIG GET appendonly", "CONFIG SET maxmemory 0", "CONFIG X", "CONFIG HELP",
			"CONFIG REWRITE", "CONFIG RESETSTAT", "SLOWLOG RESET", "SLOWLOG GET", "SLOWLOG LEN", "SLOWLOG GET x",
			"SLOWLOG GET -2", "SLOWLOG GET -1", "SLOWLOG X", "SLOWLOG HELP",
			"LATENCY RESET", "LATENCY LATEST", "LATENCY HISTORY x", "LATENCY GRAPH x", "LATENCY HISTOGRAM nosuch",
			"LATENCY X", "LATENCY HELP",
			"ACL WHOAMI", "ACL USERS", "ACL LIST", "ACL CAT", "ACL CAT x", "ACL GETUSER default", "ACL GETUSER x",
			"ACL DRYRUN default get a", "ACL DRYRUN x get a",
			"ACL SETUSER x nonsense", "ACL SETUSER bob on nopass ~b:* +get", "ACL LIST", "ACL DRYRUN bob set b:1 1",
			"ACL DELUSER bob nobody", "ACL DELUSER default", "ACL LOG", "ACL LOG x", "ACL LOG RESET", "ACL SAVE",
			"ACL LOAD", "ACL GENPASS 0", "ACL X", "ACL HELP",
			"COMMAND INFO get nosuch", "COMMAND GETKEYS mset a 1 b 2",
			"COMMAND GETKEYSANDFLAGS lmove a b left left", "COMMAND DOCS get", "COMMAND X", "COMMAND HELP",
			"REPLICAOF x", "SLAVEOF", "SYNC x", "PSYNC x", "POSTED", "HOST",
		} {
			client.Want(t, redis.Reply(t, strings.Fields(cmd)...), strings.Fields(cmd)...)
		}
	}
	same := proxytest.Dial(t, server.Addr) // every server has an order of its own
	for _, cmd := range []string{"ACL CAT scripting", "COMMAND LIST FILTERBY PATTERN xr*"} {
		same.Reply(t, "HELLO", "3")
		client.Want(t, same.Reply(t, strings.Fields(cmd)...), strings.Fields(cmd)...)
	}
}

// TestRefusedCommandsGetAReason checks that commands that a proxy refuses get an error with the
// reason.
func TestRefusedCommandsGetAReason(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	client := l.Dial(t)
	for cmd, reason := range map[string]string{
		"SHUTDOWN": "other clients", "SHUTDOWN NOSAVE": "other clients",
		"REPLICAOF NO ONE": "which node is the master", "SLAVEOF a 1": "which node is the master",
		"FAILOVER": "which node is the master", "SYNC": "a replica must connect",
		"PSYNC ? -1": "a replica must connect", "REPLCONF capa eof": "a replica must connect",
		"MODULE LOAD x": "change the modules on every node", "DEBUG SLEEP 1": "other clients",
		"DEBUG JMAP": "other clients", "DEBUG SEGFAULT": "other clients",
		"CONFIG SET port 1": "connections", "CONFIG SET maxmemory 1 MaxClients 1": "connections",
		"CONFIG SET cluster-announce-ip x": "connections",
		"PFSELFTEST":                       "Redis's own tests", "MIGRATE a 1 k 0 1": "a server behind Leash",
	} {
		got := client.Reply(t, strings.Fields(cmd)...)
		if !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, "refused by leash: ") ||
			!strings.Contains(got, reason) {
			t.Errorf("%s: %q", cmd, got)
		}
	}
	client.Want(t, "*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n", "CONFIG", "GET", "maxmemory")
}

// TestServerCommandsOnEveryMaster checks that a command about the server runs on every master.
func TestServerCommandsOnEveryMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	l := proxytest.Start(t, cluster.Addrs())
	client := l.Dial(t)
	var nodes []*redistest.Client
	for _, n := range cluster.Nodes[:3] {
		nodes = append(nodes, proxytest.Dial(t, n.Addr))
	}
	everyNodeSays := func(reply string, cmd ...string) {
		t.Helper()
		for _, n := range nodes {
			n.Want(t, reply, cmd...)
		}
	}
	client.Want(t, "+OK\r\n", "CONFIG", "SET", "slowlog-log-slower-than", "0")
	everyNodeSays("*2\r\n$23\r\nslowlog-log-slower-than\r\n$1\r\n0\r\n", "CONFIG", "GET", "slowlog-log-slower-than")
	for i := range 30 {
		client.Want(t, "+OK\r\n", "SET", fmt.Sprint("key", i), "v")
	}
	client.Want(t, "+OK\r\n", "CONFIG", "SET", "slowlog-log-slower-than", "-1")
	all := client.Reply(t, "SLOWLOG", "GET", "-1")
	if n := client.Reply(t, "SLOWLOG", "LEN"); !strings.HasPrefix(all, "*"+n[1:]) ||
		len(regexp.MustCompile(`SET\r\n\$[45]\r\nkey`).FindAllString(all, -1)) != 30 {
		t.Errorf("SLOWLOG: length %q, entries %.40q", n, all)
	}
	if got := client.Reply(t, "SLOWLOG", "GET"); !strings.HasPrefix(got, "*10\r\n") {
		t.Errorf("SLOWLOG GET: %.40q", got)
	}
	if got := client.Reply(t, "SLOWLOG", "GET", "3"); !strings.HasPrefix(got, "*3\r\n") ||
		!strings.HasPrefix(all[strings.Index(all, "*6\r\n"):], got[4:]) {
		t.Errorf("SLOWLOG GET 3: %q", got)
	}
	client.Want(t, "+OK\r\n", "SLOWLOG", "RESET")
	everyNodeSays(":0\r\n", "SLOWLOG", "LEN")

	client.Want(t, "+OK\r\n", "ACL", "SETUSER", "bob", "on", ">secret", "+@all", "~*")
	everyNodeSays("*2\r\n$3\r\nbob\r\n$7\r\ndefault\r\n", "ACL", "USERS")
	for i, n := range nodes {
		n.Reply(t, "AUTH", "bob", fmt.Sprint("wrong", i))
	}
	for _, hello := range []string{"2", "3"} {
		client.Reply(t, "HELLO", hello)
		if got := client.Reply(t, "ACL", "LOG"); !strings.HasPrefix(got, "*3\r\n") {
			t.Errorf("ACL LOG in RESP%s: %.100q", hello, got)
		}
		if got := client.Reply(t, "ACL", "LOG", "1"); !strings.HasPrefix(got, "*1\r\n") {
			t.Errorf("ACL LOG 1 in RESP%s: %.100q", hello, got)
		}
	}
	client.Want(t, "+OK\r\n", "ACL", "LOG", "RESET")
	everyNodeSays("*0\r\n", "ACL", "LOG")
	client.Want(t, ":1\r\n", "ACL", "DELUSER", "bob")
	everyNodeSays("*1\r\n$7\r\ndefault\r\n", "ACL", "USERS")

	before := client.Reply(t, "LASTSAVE")
	time.Sleep(1100 * time.Millisecond) // Redis counts in seconds
	client.Want(t, "+Background saving started\r\n", "BGSAVE")
	proxytest.Eventually(t, "all have saved", func() bool { return client.Reply(t, "LASTSAVE") != before })

	client.Want(t, "+OK\r\n", "CONFIG", "SET", "latency-monitor-threshold", "100")
	for i, n := range nodes {
		n.Reply(t, "EVAL", "local t = redis.call('TIME') repeat local u = redis.call('TIME') until (u[1]-t[1])*1000000+u[2]-t[2] > "+fmt.Sprint(120000+1000*i)+" return 1", "0")
	}
	latest := client.Reply(t, "LATENCY", "LATEST")
	if !regexp.MustCompile(`^\*1\r\n\*4\r\n\$7\r\ncommand\r\n`).MatchString(latest) {
		t.Errorf("LATENCY LATEST: %q", latest)
	}
	if got := client.Reply(t, "LATENCY", "HISTORY", "command"); !regexp.MustCompile(
		`^\*[1-3]\r\n\*2\r\n`).MatchString(got) {
		t.Errorf("LATENCY HISTORY: %q", got)
	}
	if got := client.Reply(t, "LATENCY", "RESET"); got != ":3\r\n" {
		t.Errorf("LATENCY RESET: %q", got)
	}
	client.Want(t, "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'\r\n", "CONFIG", "SET",
		"nosuch", "1")
	client.Want(t, "$8\r\nlistpack\r\n", "OBJECT", "ENCODING", hashIn(t, client))
}

func hashIn(t *testing.T, client *redistest.Client) string {
	client.Want(t, ":1\r\n", "HSET", "a hash", "f", "v")
	return "a hash"
}

// TestServerCommandWithMasterDown checks that no command reports success while a master is down.
func TestServerCommandWithMasterDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 30 * time.Second})
	l := proxytest.Start(t, cluster.Addrs(), func(o *proxytest.Options) {
		o.Upstream.RedirectTimeout = 300 * time.Millisecond
	})
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", redistest.KeyIn(0, "k"), "v")
	if err := cluster.Nodes[2].Close(); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []string{"CONFIG SET slowlog-max-len 5", "SLOWLOG LEN", "ACL SETUSER x", "INFO keyspace",
		"LASTSAVE"} {
		if got := client.Reply(t, strings.Fields(cmd)...); got[0] != '-' || !strings.Contains(got, "UPSTREAM") {
			t.Errorf("%s: %q", cmd, got)
		}
	}
	info := client.Reply(t, "INFO")
	for _, part := range []string{"redis_version:", "leash_missing_masters:1\r\n", "connected_clients:1\r\n",
		"redis_mode:cluster\r\n"} {
		if !strings.Contains(info, part) {
			t.Errorf("INFO lacks %q", part)
		}
	}
	for _, part := range []string{"\nused_memory:", "\ndb0:", "total_commands_processed"} {
		if strings.Contains(info, part) {
			t.Errorf("INFO tells %q though a master is missing", part)
		}
	}
}

// TestHTTPGetsNoReply checks that an HTTP request gets no reply.
func TestHTTPGetsNoReply(t *testing.T) {
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	for _, raw := range []string{"POST / HTTP/1.1\r\nSET a 1\r\n", "Host: x\r\nSET a 1\r\n",
		redistest.Command("post") + redistest.Command("SET", "a", "1")} {
		if got, want := proxytest.Exchange(t, l.Addr, raw), proxytest.Exchange(t, server.Addr, raw); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
	l.Dial(t).Want(t, "$-1\r\n", "GET", "a")
}

// TestHTTPCommandsOfRedis6 checks that Leash does not take the words of HTTP requests as commands,
// although Redis 6 lists them.
func TestHTTPCommandsOfRedis6(t *testing.T) {
	legacy := func(name string) []any {
		return []any{name, int64(-1), []any{"loading", "stale"}, int64(0), int64(0), int64(0)}
	}
	commands, err := command.Parse([]any{legacy("post"), legacy("host:"), legacy("role")})
	if err != nil {
		t.Fatal(err)
	}
	table := command.New(commands)
	for name, want := range map[string]bool{"post": false, "Host:": false, "role": true} {
		if got := table.Lookup([][]byte{[]byte(name), []byte("x")}) != nil; got != want {
			t.Errorf("%s is a command: %v, want %v", name, got, want)
		}
	}
}

// TestRefusedInMulti checks that commands that are refused for their arguments are refused inside
// MULTI too.
func TestRefusedInMulti(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	client := l.Dial(t)
	for _, cmd := range []string{"DEBUG SLEEP 0", "CONFIG SET maxclients 1", "SHUTDOWN"} {
		client.Want(t, "+OK\r\n", "MULTI")
		if got := client.Reply(t, strings.Fields(cmd)...); !strings.Contains(got, "refused by leash: ") {
			t.Errorf("%s: %q", cmd, got)
		}
		client.Want(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	}
	client.Want(t, "+OK\r\n", "MULTI")
	client.Want(t, "+QUEUED\r\n", "CONFIG", "SET", "maxmemory", "0")
	client.Want(t, "+QUEUED\r\n", "CLIENT", "LIST", "ID", "0")
	client.Want(t, "+QUEUED\r\n", "CLIENT", "KILL", "ID", "999999")
	client.Want(t, "+QUEUED\r\n", "CLUSTER", "SLOTS")
	client.Want(t, "*4\r\n+OK\r\n$0\r\n\r\n:0\r\n-ERR This instance has cluster support disabled\r\n", "EXEC")
}
