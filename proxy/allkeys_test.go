package proxy

import (
	"fmt"
	"strings"
	"testing"

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
			l := startLeash(t, addrs)
			var raw, wanted strings.Builder
			for i := range 50 {
				key := fmt.Sprintf("k%02d", i)
				for _, cmd := range [][]string{{"SET", key, "v"}, {"KEYS", "k*"}, {"DEL", key}, {"KEYS", "k*"},
					{"DBSIZE"}} {
					raw.WriteString(redistest.Command(cmd...))
				}
				wanted.WriteString("+OK\r\n*1\r\n$3\r\n" + key + "\r\n:1\r\n*0\r\n:0\r\n")
			}
			if got := exchange(t, l.addr, raw.String()); got != wanted.String() {
				t.Errorf("got %.300q", got)
			}
			eventually(t, "no connection pinned", func() bool { return l.up.Nodes.Pinned() == 0 })
		})
	}
}

// TestKeysLargeReplyAndClosedClient checks that a KEYS reply of many megabytes arrives whole. No
// connection stays pinned when the client closes before its end.
func TestKeysLargeReplyAndClosedClient(t *testing.T) {
	t.Parallel()
	l := startLeash(t, redistest.StartCluster(t, redistest.ClusterOptions{}).Addrs())
	client := l.dial(t)
	long := strings.Repeat("x", 1000)
	const n = 6_000
	fill(t, client, long, n)
	for range 3 {
		gone := l.dial(t)
		if err := gone.Send(redistest.Command("KEYS", "*")); err != nil {
			t.Fatal(err)
		}
		gone.Close()
	}
	if got := bulks(do(t, client, "KEYS", "*")); len(got) != n {
		t.Errorf("%d keys, want %d", len(got), n)
	}
	want(t, client, "*0\r\n", "KEYS", "none*")
	eventually(t, "no connection pinned", func() bool { return l.up.Nodes.Pinned() == 0 })
}
