package clients_test

import (
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestClientReplyAsRedis sends all commands of a case at once, because few of them get a reply.
func TestClientReplyAsRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	upstreams := []*proxytest.Leash{
		proxytest.Start(t, []string{server.Addr}), proxytest.Start(t, redistest.StartCluster(t).Addrs()),
	}
	for _, script := range []string{
		"CLIENT REPLY SKIP;PING;PING x",
		"CLIENT REPLY SKIP;CLIENT REPLY SKIP;PING 1;PING 2",
		"CLIENT REPLY SKIP;CLIENT REPLY ON;PING 1;PING 2",
		"CLIENT REPLY SKIP;CLIENT REPLY OFF;PING 1;PING 2;CLIENT REPLY ON;PING 3",
		"CLIENT REPLY OFF;SET a 1;GET a;MGET a b;NOSUCH;GET;LPUSH a 1;EVAL return_1 0;CLIENT REPLY SKIP;CLIENT REPLY x;GET a;CLIENT REPLY ON;GET a;GET b",
		"SET a 1;CLIENT REPLY SKIP;MGET a b c;GET a;CLIENT REPLY SKIP;NOSUCH;GET a;CLIENT REPLY SKIP;CLIENT REPLY x;GET a;CLIENT REPLY SKIP;DEL a b c;GET a",
		"CLIENT REPLY OFF;PING;RESET;PING",
		"CLIENT REPLY OFF;HELLO 3;GET a;CLIENT REPLY ON;GET nothing",
		"CLIENT REPLY OFF;GET a;QUIT;PING",
		"CLIENT REPLY SKIP;QUIT",
		"CLIENT REPLY SKIP;BLPOP none 0.01;PING",
		"CLIENT REPLY OFF;MULTI;PING;EXEC;CLIENT REPLY ON;PING",
		"CLIENT REPLY SKIP;MULTI;PING;EXEC;PING",
		"MULTI;CLIENT REPLY SKIP;PING;EXEC;PING;PING",
		"CLIENT REPLY SKIP;WATCH a;MULTI;SET a 1;EXEC;DEL a",
		"CLIENT REPLY OFF;SUBSCRIBE a;PING;UNSUBSCRIBE a;CLIENT REPLY ON;PING",
		"CLIENT REPLY OFF;HELLO 3;SUBSCRIBE a;PING;CLIENT REPLY ON;UNSUBSCRIBE a;PING",
	} {
		var raw strings.Builder
		for cmd := range strings.SplitSeq(script, ";") {
			raw.WriteString(redistest.Command(strings.Fields(cmd)...))
		}
		want := proxytest.Exchange(t, server.Addr, raw.String())
		for _, l := range upstreams {
			if got := proxytest.Exchange(t, l.Addr, raw.String()); got != want {
				t.Errorf("%s: got %q, want %q", script, got, want)
			}
		}
	}
}

// TestDiscardedLargeReplies checks that large replies that CLIENT REPLY OFF discards use no memory
// and do not block the session.
func TestDiscardedLargeReplies(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "big", strings.Repeat("v", 1<<20))
	raw := redistest.Command("CLIENT", "REPLY", "OFF") + strings.Repeat(redistest.Command("GET", "big"), 500)
	if err := client.Send(raw); err != nil {
		t.Fatal(err)
	}
	client.Want(t, "+OK\r\n", "CLIENT", "REPLY", "ON")
	client.Want(t, "+PONG\r\n", "PING")
}
