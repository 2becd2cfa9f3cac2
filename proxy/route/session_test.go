package route

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/call"
	"leash/proxy/chunk"
	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// fakeCluster is a cluster of the nodes a, b and c. A test says who serves which slot, and what the
// nodes answer.
type fakeCluster struct {
	a, b, c *redistest.Fake
	names   *strings.Replacer // of "a:", "b:" and "c:" to their addresses, and "gone:" to one without a server

	mu     sync.Mutex
	layout []string // of each range of slots: "first last node"
	// replies by "node command"; one that begins with "once " is given once. A node answers other
	// commands of clients with its name.
	replies map[string]string
	on      func(request string) // called before a node answers a command of a client
}

// startCluster starts nodes without slots.
func startCluster(t *testing.T) *fakeCluster {
	c := &fakeCluster{}
	c.a = redistest.StartFake(t, func(args []string) string { return c.answer("a", args) })
	c.b = redistest.StartFake(t, func(args []string) string { return c.answer("b", args) })
	c.c = redistest.StartFake(t, func(args []string) string { return c.answer("c", args) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	_, portOfB, _ := strings.Cut(c.b.Addr, ":")
	c.names = strings.NewReplacer("a:", c.a.Addr, "nameless b:", ":"+portOfB, "b:", c.b.Addr, "c:", c.c.Addr,
		"gone:", ln.Addr().String())
	return c
}

// serve says who serves the slots from now on.
func (c *fakeCluster) serve(layout ...string) {
	c.mu.Lock()
	c.layout = layout
	c.mu.Unlock()
}

// answer is what a node answers.
func (c *fakeCluster) answer(node string, args []string) string {
	switch strings.ToUpper(strings.Join(args[:min(len(args), 2)], " ")) {
	case "INFO":
		return string(resp.AppendBulk(nil, "redis_version:7.0.15\r\nredis_mode:cluster\r\n"))
	case "CLUSTER SLOTS":
		return c.slots()
	case "CLUSTER NODES", "CONFIG GET", "HELLO 2":
		return "-NOPERM no permissions\r\n"
	}
	request := node + " " + strings.Join(args, " ")
	c.mu.Lock()
	reply, on := c.replies[request], c.on
	reply, once := strings.CutPrefix(reply, "once ")
	if once {
		delete(c.replies, request)
	}
	c.mu.Unlock()
	if on != nil {
		on(request)
	}
	switch {
	case reply == "close":
		return ""
	case reply != "":
		return c.names.Replace(reply) + "\r\n"
	}
	return "+" + node + "\r\n"
}

// slots is the reply to CLUSTER SLOTS.
func (c *fakeCluster) slots() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := resp.AppendArray(nil, len(c.layout))
	for _, r := range c.layout {
		field := strings.Fields(c.names.Replace(r))
		host, port, _ := strings.Cut(field[2], ":")
		b = append(b, "*3\r\n:"+field[0]+"\r\n:"+field[1]+"\r\n*2\r\n"...)
		b = append(resp.AppendBulk(b, host), ":"+port+"\r\n"...)
	}
	return string(b)
}

// sent returns the commands of clients that a node has got, in order, with "|" between them.
func sent(node *redistest.Fake) string {
	var all []string
	for _, request := range strings.Split(node.Commands(), "|") {
		if name, _, _ := strings.Cut(request, " "); slices.Contains(ofClients, name) {
			all = append(all, request)
		}
	}
	return strings.Join(all, "|")
}

var ofClients = []string{"ASKING", "GET", "SET", "MGET", "EVAL", "ECHO"}

// testSession is a session without a client.
type testSession struct {
	router  Router
	calls   call.Queue
	up      *upstream.Upstream
	table   command.Table
	mu      sync.Mutex
	out     client.Output
	replies chunk.List
	cut     string // why the session has ended; empty: it has not
	barrier func() // called before the session waits for its calls
}

// startSession starts an upstream and a session that uses it. The nodes must have slots.
func startSession(t *testing.T, c *fakeCluster, patience time.Duration) *testSession {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	up, err := upstream.New(upstream.Config{Config: dial.Config{RedirectTimeout: patience},
		Addrs: []string{c.a.Addr, c.b.Addr}}, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = up.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })

	s := &testSession{up: up, table: command.New(nil), barrier: func() {}}
	server := &call.Server{Nodes: up, Commands: s.table, Log: log}
	s.out.Init(s, s, &s.mu)
	s.calls.Init(server, s, &s.out, &s.mu)
	s.calls.SendTo(&s.replies)
	s.router.Init(Config{Context: ctx, Up: up, Session: s, Calls: &s.calls, Out: &s.out, Mu: &s.mu, Log: log})
	lane := dial.Lane{}
	up.Nodes.Join(lane)
	s.router.Start(lane)
	return s
}

// run runs a command as the loop of a session does. It returns false when the session ends.
func (s *testSession) run(words string) bool {
	cmd, _ := resp.ParseRequest(resp.AppendCommand(nil, strings.Fields(words)...))
	c := s.table.Lookup(cmd.Args)
	if !s.router.Begin(c) {
		return false
	}
	if how, ok := call.SplittingOf(c.Name); ok {
		return s.router.Split(how, cmd)
	}
	return s.router.Relay(c, cmd)
}

// got waits for all replies and returns them, with "|" between them.
func (s *testSession) got() string {
	s.calls.Empty()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []byte
	s.replies.TakeAll(func(p []byte) { all = append(all, p...) })
	return strings.ReplaceAll(strings.TrimSuffix(string(all), "\r\n"), "\r\n", "|")
}

func (s *testSession) Submit(n *links.Node, replica bool, c *links.Request) {
	s.router.Submit(n, replica, c)
}
func (s *testSession) BeforeBarrier()                { s.barrier() }
func (s *testSession) End(reason string)             { s.cut = reason }
func (s *testSession) Fail()                         { s.cut = "panic" }
func (s *testSession) Wrote()                        { s.calls.WroteLocked() }
func (*testSession) Source() call.Source             { return nil }
func (*testSession) MayReadReplicas() bool           { return false }
func (*testSession) Cache() Cache                    { return nil }
func (*testSession) Go(_ string, f func()) bool      { return false }
func (*testSession) Take() bool                      { return true }
func (*testSession) Until() *time.Time               { return nil }
func (*testSession) Overdue()                        {}
func (*testSession) Replied(*links.Node, *call.Call) {}
func (*testSession) Failed(uint8)                    {}
func (*testSession) Refused([]byte)                  {}
func (*testSession) IdleLocked()                     {}
func (*testSession) OutputDropped(int)               {}
func (*testSession) Try(p []byte) (int, error)       { return len(p), nil }
func (*testSession) Push(p []byte) (int, error)      { return len(p), nil }

func (*testSession) Slow([]byte, *links.Node, time.Duration, time.Duration) {}

func (s *testSession) Redirected(n *links.Node, _ *call.Call, _ bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.router.WroteElsewhereLocked(n)
}
