package proxy

import (
	"strings"
	"testing"

	"leash/internal/redistest"
	"leash/proxy/merge"
)

// startMerging runs a proxy whose DBSIZE is merged by m.
func startMerging(t *testing.T, m merge.Func) *leash {
	t.Helper()
	l := startLeash(t, []string{redistest.Start(t).Addr})
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
	client, other := l.dial(t), l.dial(t)
	want(t, other, "+OK\r\n", "SET", "k", "v")
	if err := client.Send(redistest.Command("DBSIZE") + redistest.Command("GET", "k") +
		redistest.Command("PING")); err != nil {
		t.Fatal(err)
	}
	<-begun
	for range 10 {
		want(t, other, "$1\r\nv\r\n", "GET", "k")
	}
	close(end)
	const replies = ":1\r\n$1\r\nv\r\n+PONG\r\n"
	got := make([]byte, len(replies))
	if _, err := readFull(client, got); err != nil || string(got) != replies {
		t.Errorf("got %q, %v, want %q", got, err, replies)
	}
}

// TestPanicInMergeCostsOneReply checks that a session goes on after a panic in a merge.
func TestPanicInMergeCostsOneReply(t *testing.T) {
	l := startMerging(t, func([]*merge.Reply) (merge.Reply, bool) { panic("for the test") })
	client, other := l.dial(t), l.dial(t)
	want(t, other, "+PONG\r\n", "PING")
	want(t, client, "-"+merge.Mismatch+"\r\n", "DBSIZE")
	want(t, client, "$-1\r\n", "GET", "k")
	want(t, other, "$-1\r\n", "GET", "k")
	if log := l.logs.String(); !strings.Contains(log, `msg="panic recovered" in=merge`) {
		t.Errorf("the log lacks the panic:\n%s", log)
	}
}
