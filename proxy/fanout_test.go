package proxy_test

import (
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/merge"
)

// startMerging runs a proxy whose DBSIZE is merged by m.
func startMerging(t *testing.T, m merge.Func) *proxytest.Leash {
	t.Helper()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	l.MergeBy(m, "DBSIZE")
	return l
}

// TestMergeDelaysNoOtherClient checks that clients of a link get their replies while replies of it
// are merged. The client of the merged command gets its replies in the order of its commands.
func TestMergeDelaysNoOtherClient(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	l := startMerging(t, func(replies []*merge.Reply) (merge.Reply, bool) {
		close(begun)
		<-end
		return merge.Sum(replies)
	})
	client, other := l.Dial(t), l.Dial(t)
	other.Want(t, "+OK\r\n", "SET", "k", "v")
	if err := client.Send(redistest.Command("DBSIZE") + redistest.Command("GET", "k") +
		redistest.Command("PING")); err != nil {
		t.Fatal(err)
	}
	<-begun
	for range 10 {
		other.Want(t, "$1\r\nv\r\n", "GET", "k")
	}
	close(end)
	const replies = ":1\r\n$1\r\nv\r\n+PONG\r\n"
	got := make([]byte, len(replies))
	if _, err := proxytest.ReadFull(client, got); err != nil || string(got) != replies {
		t.Errorf("got %q, %v, want %q", got, err, replies)
	}
}

// TestPanicInMergeCostsOneReply checks that a session goes on after a panic in a merge.
func TestPanicInMergeCostsOneReply(t *testing.T) {
	l := startMerging(t, func([]*merge.Reply) (merge.Reply, bool) { panic("for the test") })
	client, other := l.Dial(t), l.Dial(t)
	other.Want(t, "+PONG\r\n", "PING")
	client.Want(t, "-"+merge.Mismatch+"\r\n", "DBSIZE")
	client.Want(t, "$-1\r\n", "GET", "k")
	other.Want(t, "$-1\r\n", "GET", "k")
	if log := l.Logs.String(); !strings.Contains(log, `msg="panic recovered" in=merge`) {
		t.Errorf("the log lacks the panic:\n%s", log)
	}
}
