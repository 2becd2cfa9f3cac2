package route

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/proxy/call"
	"leash/proxy/merge"
	"leash/proxy/slots"
)

// halves is the layout of two nodes. The slot of k, 7629, is at a, and that of foo, 12182, at b.
var halves = []string{"0 8191 a:", "8192 16383 b:"}

const (
	tryAgain = "-" + call.TryAgain
	unserved = "-" + call.ErrorUnserved
	lost     = "-" + call.ErrorLost
)

// TestRouter checks where commands go, and what the client gets, when the topology that Leash knows
// is not that of the cluster.
func TestRouter(t *testing.T) {
	for _, row := range []struct {
		name     string
		layout   []string // when Leash starts; nil for halves
		later    []string // from then on; nil for the same
		replies  map[string]string
		patience time.Duration // redirect time-out; 0 for 10 s
		commands string        // a pipeline
		want     string        // the replies
		then     string        // another pipeline, after the replies
		gets     string        // its replies
		a, b, c  string        // what the nodes get; "*" for anything
	}{
		{name: "each key at its node", commands: "SET k 1|GET foo|GET k", want: "+a|+b|+a", a: "SET k 1|GET k",
			b: "GET foo"},
		{name: "no key", commands: "ECHO 1|ECHO 2", want: "+a|+a", a: "ECHO 1|ECHO 2"},
		{name: "MOVED is followed and remembered", later: []string{"0 7628 a:", "7629 16383 b:"},
			replies:  map[string]string{"a SET k 1": "-MOVED 7629 b:", "a SET k 2": "-MOVED 7629 b:"},
			commands: "SET k 1|SET k 2", want: "+b|+b", then: "SET k 3", gets: "+b",
			a: "*", b: "SET k 1|SET k 2|SET k 3"},
		{name: "MOVED without a host", later: []string{"0 7628 a:", "7629 16383 b:"},
			replies: map[string]string{"a GET k": "-MOVED 7629 nameless b:"}, commands: "GET k", want: "+b",
			a: "GET k", b: "GET k"},
		{name: "MOVED to a new node", later: []string{"0 7628 a:", "7629 8191 c:", "8192 16383 b:"},
			replies: map[string]string{"a GET k": "-MOVED 7629 c:"}, commands: "GET k", want: "+c",
			then: "GET k", gets: "+c", a: "GET k", c: "GET k|GET k"},
		{name: "MOVED by a script to a node that is not of the cluster", patience: 50 * time.Millisecond,
			replies:  map[string]string{"a EVAL x 1 k": "-MOVED 7629 c:"},
			commands: "EVAL x 1 k", want: unserved, then: "GET k", gets: "+a", a: "*"},
		{name: "MOVED of another slot", replies: map[string]string{"a GET k": "-MOVED 1 b:"},
			commands: "GET k", want: "-MOVED 1 b:", a: "GET k"},
		{name: "MOVED in a circle", patience: 50 * time.Millisecond,
			replies:  map[string]string{"a GET k": "-MOVED 7629 b:", "b GET k": "-MOVED 7629 a:"},
			commands: "GET k", want: unserved, a: "*", b: "*"},
		{name: "ASK is followed and forgotten", replies: map[string]string{"a GET k": "once -ASK 7629 b:"},
			commands: "GET k", want: "+b", then: "GET k", gets: "+a", a: "GET k|GET k", b: "ASKING|GET k"},
		{name: "the cluster is down for a moment", replies: map[string]string{
			"a GET k": "once -CLUSTERDOWN The cluster is down"}, commands: "GET k", want: "+a", a: "GET k|GET k"},
		{name: "a slot without a node", layout: halves[:1], patience: 50 * time.Millisecond,
			commands: "GET foo|GET k", want: unserved + "|+a", a: "GET k"},
		{name: "a slot that gets a node", layout: halves[:1], later: halves, commands: "SET foo 1|GET foo",
			want: "+b|+b", b: "SET foo 1|GET foo"},
		{name: "a node that does not answer", replies: map[string]string{"a GET k": "once close"},
			commands: "GET k", want: lost, then: "GET k", gets: "+a", a: "GET k|GET k"},
		{name: "a node that is gone", layout: []string{"0 8191 gone:", "8192 16383 b:"},
			patience: 50 * time.Millisecond, commands: "GET k", want: "-" + merge.NotSent,
			then: "GET foo", gets: "+b", b: "GET foo"},
		{name: "a node that is replaced", layout: []string{"0 8191 gone:", "8192 16383 b:"},
			later: []string{"0 16383 b:"}, patience: 3 * time.Second, commands: "SET k 1|GET k", want: "+b|+b",
			b: "SET k 1|GET k"},
		{name: "keys of two nodes", replies: map[string]string{
			"a MGET k": "*1\r\n$1\r\n1", "b MGET foo": "once -MOVED 12182 a:", "a MGET foo": "*1\r\n$1\r\n2"},
			later: []string{"0 16383 a:"}, commands: "MGET k foo", want: "*2|$1|1|$1|2", a: "MGET k|MGET foo",
			b: "MGET foo"},
		{name: "keys of two nodes, one of them gone", layout: []string{"0 8191 gone:", "8192 16383 b:"},
			patience: 50 * time.Millisecond, replies: map[string]string{"b MGET foo": "*1\r\n$1\r\n2"},
			commands: "MGET k foo", want: "-" + merge.NotSentPartly, b: "MGET foo"},
		{name: "some keys of a slot have moved", replies: map[string]string{
			"a MGET {k}1 {k}2": tryAgain, "a MGET {k}1": "*1\r\n$1\r\n1", "a MGET {k}2": "-ASK 7629 b:",
			"b MGET {k}2": "*1\r\n$1\r\n2"}, commands: "MGET {k}1 {k}2", want: "*2|$1|1|$1|2",
			a: "MGET {k}1 {k}2|MGET {k}1|MGET {k}2", b: "ASKING|MGET {k}2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t)
			c.replies = row.replies
			if row.layout == nil {
				row.layout = halves
			}
			c.serve(row.layout...)
			if row.patience == 0 {
				row.patience = 10 * time.Second
			}
			s := startSession(t, c, row.patience)
			if row.later != nil {
				c.serve(row.later...)
			}
			for _, part := range [][2]string{{row.commands, row.want}, {row.then, row.gets}} {
				if part[0] == "" {
					continue
				}
				for _, words := range strings.Split(part[0], "|") {
					s.run(words)
				}
				if got := s.got(); got != c.names.Replace(part[1]) {
					t.Errorf("%s: got %q, want %q", part[0], got, part[1])
				}
			}
			for _, node := range [][3]string{{"a", sent(c.a), row.a}, {"b", sent(c.b), row.b}, {"c", sent(c.c), row.c}} {
				if node[1] != node[2] && node[2] != "*" {
					t.Errorf("%s got %q, want %q", node[0], node[1], node[2])
				}
			}
			if s.cut != "" {
				t.Errorf("the session has ended: %s", s.cut)
			}
		})
	}
}

// TestTopologyChangesWhileCommandsRun checks that a session uses a new topology only after the
// replies to everything that it sent by the old one.
func TestTopologyChangesWhileCommandsRun(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.serve(halves...)
	s := startSession(t, c, 10*time.Second)
	var mu sync.Mutex
	var order []string
	gate, waits := make(chan struct{}), false
	c.on = func(request string) {
		if request == "a SET k 1" {
			<-gate // a command takes its time
		}
		mu.Lock()
		order = append(order, request)
		mu.Unlock()
	}
	s.run("SET k 1")
	s.up.Moved(slots.Of([]byte("k")), s.up.Nodes.Node(c.b.Addr))
	s.barrier = func() { waits = true; close(gate) }
	s.run("SET k 2")
	if !waits {
		t.Error("the session does not wait for its first command")
		close(gate)
	}
	if got := s.got(); got != "+a|+b" {
		t.Errorf("got %q", got)
	}
	if want := []string{"a SET k 1", "b SET k 2"}; !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
	if nodes, left := s.router.Written(); len(nodes) != 2 || left {
		t.Errorf("written to %d nodes, left %v", len(nodes), left)
	}
}

// TestEndedSession checks that commands of a session whose client has gone are not sent.
func TestEndedSession(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.serve(halves...)
	s := startSession(t, c, 10*time.Second)
	s.mu.Lock()
	s.out.DropLocked()
	s.mu.Unlock()
	for _, words := range []string{"GET k", "ECHO 1", "MGET k foo"} {
		if s.run(words) {
			t.Errorf("%s: the session goes on", words)
		}
	}
	if sent(c.a)+sent(c.b) != "" {
		t.Errorf("a got %q and b %q", sent(c.a), sent(c.b))
	}
}
