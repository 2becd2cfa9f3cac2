package call

import (
	"sync"
	"time"

	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/slots"
)

// testSession is a session and its socket. It also is what the queue knows of Redis: the nodes a
// and b.
type testSession struct {
	mu      sync.Mutex
	queue   Queue
	out     client.Output
	written []byte // what the client has got
	idle    int    // how often no call was in flight any more
	failed  int
	mode    string
	moved   bool // a MOVED has changed the topology

	// state guards the fields below, which timers use too.
	state   sync.Mutex
	submits []submit
	owner   *links.Node   // of all slots
	timeout time.Duration // of redirects
}

// set changes what timers use.
func (s *testSession) set(f func()) {
	s.state.Lock()
	defer s.state.Unlock()
	f()
}

// taken returns what was sent since the last call.
func (s *testSession) taken() (sent []submit) {
	s.set(func() { sent, s.submits = s.submits, nil })
	return sent
}

// submit is a call that was sent, and where.
type submit struct {
	node    *links.Node
	replica bool
	asking  bool
	request string
}

var commands = command.New(nil)

var a, b = &links.Node{Addr: "a:1"}, &links.Node{Addr: "b:1"}

// newSession returns a session for a cluster whose node a has all slots.
func newSession() *testSession {
	s := &testSession{mode: "cluster", owner: a, timeout: time.Minute}
	server := &Server{Nodes: s, Commands: commands, Script: func(string) (string, bool) { return "return 1", true }}
	s.out.Init(s, s, &s.mu)
	s.queue.Init(server, s, &s.out, &s.mu)
	return s
}

// postponed returns how many calls wait to be sent again.
func (s *testSession) postponed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.suspended
}

// push adds a command to the queue and returns its part.
func (s *testSession) push(slot slots.Slot, request string) *Part {
	return s.queue.Push(&Whole{Bytes: []byte(request), Slot: slot})
}

// got flushes and returns what the client has got.
func (s *testSession) got() string {
	s.out.Flush()
	return string(s.written)
}

func (s *testSession) Submit(n *links.Node, replica bool, c *links.Request) {
	s.set(func() { s.submits = append(s.submits, submit{n, replica, c.Asking, string(c.Command)}) })
}

func (s *testSession) Try(p []byte) (int, error) {
	s.written = append(s.written, p...)
	return len(p), nil
}

func (s *testSession) Push(p []byte) (int, error)                             { return s.Try(p) }
func (s *testSession) IdleLocked()                                            { s.idle++ }
func (*testSession) End(string)                                               {}
func (s *testSession) Fail()                                                  { s.failed++ }
func (s *testSession) Failed(uint8)                                           {}
func (s *testSession) Slow([]byte, *links.Node, time.Duration, time.Duration) {}
func (s *testSession) Refused([]byte)                                         {}
func (s *testSession) Wrote()                                                 { s.queue.WroteLocked() }
func (s *testSession) OutputDropped(int)                                      { s.queue.DroppedLocked() }
func (s *testSession) Mode() string                                           { return s.mode }
func (s *testSession) Cluster() bool                                          { return s.mode == "cluster" }
func (s *testSession) Moved(slots.Slot, *links.Node)                          { s.moved = true }
func (*testSession) NoteMoving()                                              {}
func (*testSession) Refresh()                                                 {}
func (*testSession) Take() bool                                               { return true }
func (*testSession) Until() *time.Time                                        { return nil }
func (*testSession) Overdue()                                                 {}
func (*testSession) Go(string, func()) bool                                   { return false }
func (*testSession) Replied(*links.Node, *Call)                               {}

func (*testSession) Redirected(*links.Node, *Call, bool) {}

func (*testSession) OtherNode(n *links.Node) *links.Node {
	if n == a {
		return b
	}
	return a
}

func (*testSession) Target(addr string, _ *links.Node, trusted bool) *links.Node {
	switch {
	case addr == a.Addr:
		return a
	case addr == b.Addr && trusted:
		return b
	}
	return nil
}

// ownPath is a connection of a test that a part has to itself.
type ownPath struct {
	session *testSession
	gone    bool // the client
}

func (p *ownPath) Submit(n *links.Node, c *links.Request) { p.session.Submit(n, false, c) }
func (p *ownPath) Abandoned() bool                        { return p.gone }

func (s *testSession) NodeOf(slots.Slot) (n *links.Node) {
	s.set(func() { n = s.owner })
	return n
}

func (s *testSession) RedirectTimeout() (d time.Duration) {
	s.set(func() { d = s.timeout })
	return d
}
