package scan_test

import (
	"fmt"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestKeysKeepsPipelineOrder checks that the reply to KEYS keeps its place in a pipeline, although
// KEYS uses other connections.
func TestKeysKeepsPipelineOrder(t *testing.T) {
	t.Parallel()
	for name, addrs := range map[string][]string{
		"cluster":    redistest.StartCluster(t, redistest.ClusterOptions{}).Addrs(),
		"standalone": {redistest.Start(t).Addr},
	} {
		t.Run(name, func(t *testing.T) {
			l := proxytest.Start(t, addrs)
			var raw, wanted strings.Builder
			for i := range 50 {
				key := fmt.Sprintf("k%02d", i)
				for _, cmd := range [][]string{{"SET", key, "v"}, {"KEYS", "k*"}, {"DEL", key}, {"KEYS", "k*"},
					{"DBSIZE"}} {
					raw.WriteString(redistest.Command(cmd...))
				}
				wanted.WriteString("+OK\r\n*1\r\n$3\r\n" + key + "\r\n:1\r\n*0\r\n:0\r\n")
			}
			if got := proxytest.Exchange(t, l.Addr, raw.String()); got != wanted.String() {
				t.Errorf("got %.300q", got)
			}
			proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
		})
	}
}

// TestKeysLargeReplyAndClosedClient checks that a KEYS reply of many megabytes arrives whole. No
// connection stays pinned when the client closes before its end.
func TestKeysLargeReplyAndClosedClient(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, redistest.StartCluster(t, redistest.ClusterOptions{}).Addrs())
	client := l.Dial(t)
	long := strings.Repeat("x", 1000)
	const n = 6_000
	proxytest.Fill(t, client, long, n)
	for range 3 {
		gone := l.Dial(t)
		if err := gone.Send(redistest.Command("KEYS", "*")); err != nil {
			t.Fatal(err)
		}
		gone.Close()
	}
	if got := proxytest.Bulks(client.Reply(t, "KEYS", "*")); len(got) != n {
		t.Errorf("%d keys, want %d", len(got), n)
	}
	client.Want(t, "*0\r\n", "KEYS", "none*")
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}
