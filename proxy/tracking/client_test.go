package tracking

import (
	"strings"
	"sync"
	"testing"

	"leash/proxy/call"
	"leash/proxy/client"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// testSession is a session with a socket, among others on the same server. Of its calls it needs
// only deliveries, so it implements no other method of call.Session.
type testSession struct {
	call.Session
	mu         sync.Mutex
	calls      call.Queue
	out        client.Output
	router     route.Router
	client     Client
	others     map[int64]*testSession
	written    []byte // what the client has got
	ended      bool
	subscribed bool
}

// newSessions makes sessions of one server, with the IDs from 1 on.
func newSessions(n int64) map[int64]*testSession {
	all := make(map[int64]*testSession)
	for id := int64(1); id <= n; id++ {
		s := &testSession{others: all}
		s.out.Init(s, s, &s.mu)
		s.calls.Init(&call.Server{}, s, &s.out, &s.mu)
		s.router.ID, s.router.Config = id, route.Config{Calls: &s.calls, Mu: &s.mu}
		s.client.Init(s, &s.router)
		all[id] = s
	}
	return all
}

func (s *testSession) Caching(id int64) *Client {
	if other := s.others[id]; other != nil {
		return &other.client
	}
	return nil
}

func (s *testSession) Ended() bool { return s.ended }

func (s *testSession) Tell(frame []byte) links.Flusher {
	if !s.subscribed {
		return nil
	}
	return s.calls.Deliver(frame)
}

func (*testSession) Keeps(*links.Link) bool { return false }

func (*testSession) Go(string, func()) bool { return false }
func (*testSession) Wrote()                 {}
func (*testSession) OutputDropped(int)      {}

func (s *testSession) Try(p []byte) (int, error) {
	s.written = append(s.written, p...)
	return len(p), nil
}

func (s *testSession) Push(p []byte) (int, error) { return s.Try(p) }

// taken returns what the client has got since the last call.
func (s *testSession) taken() string {
	defer func() { s.written = nil }()
	return string(s.written)
}

// TestNothingWithoutTracking checks that a session without tracking needs nothing.
func TestNothingWithoutTracking(t *testing.T) {
	var c Client
	if c.On() || c.Expects() || c.Cache() != nil {
		t.Error("it tracks")
	}
	if !c.Await() || !c.Before(nil, false, false) || !c.Behind(func() bool { return true }) {
		t.Error("it ends its session")
	}
	if got, want := c.View(), (View{Redirect: -1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.Replied(nil, nil)
	c.CheckTopology()
	c.ForgetAll()
	c.Stop()
}

// TestRedirectOf checks which REDIRECT Leash takes out of CLIENT TRACKING, and what it refuses.
func TestRedirectOf(t *testing.T) {
	for _, test := range []struct {
		args, rest string
		to         int64 // 0: none
		refusal    string
	}{
		{args: "ON", rest: "ON"},
		{args: "ON BCAST PREFIX a NOLOOP", rest: "ON BCAST PREFIX a NOLOOP"},
		{args: "ON redirect 2 OPTIN", rest: "ON OPTIN", to: 2},
		{args: "ON REDIRECT 1", rest: "ON", to: 1}, // itself
		{args: "ON PREFIX REDIRECT REDIRECT 2", rest: "ON PREFIX REDIRECT", to: 2},
		{args: "ON REDIRECT", rest: "ON REDIRECT"},
		{args: "ON REDIRECT 2 WRONG REDIRECT 9", rest: "ON WRONG REDIRECT 9"},
		{args: "ON REDIRECT 9", refusal: msgNoRedirectTarget},
		{args: "ON REDIRECT x", refusal: "ERR value is not an integer or out of range"},
		{args: "ON REDIRECT 2 REDIRECT 2", refusal: msgOneRedirect},
	} {
		args := [][]byte{[]byte("CLIENT"), []byte("TRACKING")}
		for _, word := range strings.Fields(test.args) {
			args = append(args, []byte(word))
		}
		rest, to, refusal := newSessions(2)[1].client.redirectOf(args)
		var words []string
		for _, arg := range rest[min(2, len(rest)):] {
			words = append(words, string(arg))
		}
		var id int64
		if to != nil {
			id = to.to.router.ID
		}
		if got := strings.Join(words, " "); got != test.rest || id != test.to || refusal != test.refusal {
			t.Errorf("%s: got %q to %d (%s), want %q to %d (%s)", test.args, got, id, refusal, test.rest, test.to,
				test.refusal)
		}
	}
}

// TestInvalidationsInTheProtocolOfTheTarget checks in which form a target gets invalidations, and
// that its source learns that it has gone.
func TestInvalidationsInTheProtocolOfTheTarget(t *testing.T) {
	all := newSessions(2)
	source, target := all[1], all[2]
	r := &redirection{from: &source.client, to: &target.client}
	tracked := &tracking{client: &source.client}
	tracked.redirect.Store(r)
	source.client.own.Store(tracked)
	const keys = "*1\r\n$1\r\nk\r\n"
	for _, step := range []struct {
		what              string
		change            func()
		keys, told, heard string // what the target and the source get
	}{
		{"RESP2 without subscription", func() {}, keys, "", ""},
		{"RESP2", func() { target.subscribed = true }, keys, invalidateMessage + keys, ""},
		{"RESP2, all keys", func() {}, resp.Null, invalidateMessage + resp.NilBulk, ""},
		{"RESP3", func() { target.router.Lane.RESP3 = true }, keys, invalidatePush + keys, ""},
		{"RESP3, all keys", func() {}, resp.Null, InvalidateAll, ""},
		{"target has gone", func() { target.ended = true }, keys, "", ""},
		{"source in RESP3", func() { source.router.Lane.RESP3 = true }, keys, "",
			">2\r\n$21\r\ntracking-redir-broken\r\n:2\r\n"},
	} {
		step.change()
		r.send([]byte(step.keys))
		if got := target.taken(); got != step.told {
			t.Errorf("%s: the target got %q, want %q", step.what, got, step.told)
		}
		if got := source.taken(); got != step.heard {
			t.Errorf("%s: the source got %q, want %q", step.what, got, step.heard)
		}
	}
	if got, want := source.client.View(), (View{On: true, Broken: true, Redirect: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestTargetKnowsItsSources checks that a target expects invalidations after the first redirection
// to it, and forgets a source that has ended.
func TestTargetKnowsItsSources(t *testing.T) {
	all := newSessions(3)
	target := &all[3].client
	var sources []*tracking
	for id := int64(1); id <= 2; id++ {
		one := &tracking{client: &all[id].client}
		one.redirect.Store(&redirection{from: one.client, to: target})
		if target.Expects() != (id > 1) {
			t.Errorf("with %d sources: got Expects() = %t", id-1, target.Expects())
		}
		target.addSource(one)
		sources = append(sources, one)
	}
	for left := 2; left >= 0; left-- {
		if got := len(target.allSources()); got != left {
			t.Errorf("got %d sources, want %d", got, left)
		}
		if left > 0 {
			sources[left-1].stop()
		}
	}
	if !target.Expects() {
		t.Error("invalidations of an ended source may still come, but the target does not expect them")
	}
}

// TestInfoNamesTheTarget checks that CLIENT TRACKINGINFO has the ID of Leash's client.
func TestInfoNamesTheTarget(t *testing.T) {
	all := newSessions(7)
	r := &redirection{from: &all[1].client, to: &all[7].client}
	const reply = "*6\r\n$5\r\nflags\r\n*1\r\n$2\r\non\r\n$8\r\nredirect\r\n:4711\r\n$8\r\nprefixes\r\n*0\r\n"
	want := strings.Replace(reply, "4711", "7", 1)
	if got := string(r.info([]byte(reply))); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.broken.Store(true)
	want = strings.Replace(want, "*1\r\n$2\r\non\r\n", "*2\r\n$2\r\non\r\n$15\r\nbroken_redirect\r\n", 1)
	if got := string(r.info([]byte(reply))); got != want {
		t.Errorf("with a broken redirection: got %q, want %q", got, want)
	}
	for _, odd := range []string{"", "-ERR no\r\n", "$8\r\nredirect\r\n:1"} {
		if got := string(r.info([]byte(odd))); got != odd {
			t.Errorf("got %q, want %q unchanged", got, odd)
		}
	}
}
