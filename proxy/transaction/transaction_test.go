package transaction

import (
	"slices"
	"sync"
	"testing"

	"leash/proxy/call"
	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

type (
	ofCalls       = call.Session
	ofTransaction = Session
)

// testSession is a session that runs commands after EXEC. It implements of call.Session and Session
// only what such a session needs.
type testSession struct {
	ofCalls
	ofTransaction
	mu      sync.Mutex
	calls   call.Queue
	out     client.Output
	written []byte   // what the client has got
	ran     []string // commands that Leash ran
}

func newSession() *testSession {
	s := &testSession{}
	s.out.Init(s, s, &s.mu)
	s.calls.Init(&call.Server{}, s, &s.out, &s.mu)
	return s
}

func (s *testSession) RunOwn(c *command.Command, _ resp.Command) (reply []byte, ok bool) {
	s.ran = append(s.ran, c.Name)
	if c.Name == "select" {
		return []byte("-NOPERM this user has no permissions to run the 'select' command\r\n"), true
	}
	return []byte("$3\r\nown\r\n"), true
}

func (*testSession) Refused([]byte)         {}
func (*testSession) Go(string, func()) bool { return false }
func (*testSession) Wrote()                 {}
func (*testSession) OutputDropped(int)      {}
func (*testSession) Failed(uint8)           {}

func (s *testSession) Try(p []byte) (int, error) {
	s.written = append(s.written, p...)
	return len(p), nil
}

func (s *testSession) Push(p []byte) (int, error) { return s.Try(p) }

// TestNoTransaction checks that a session without a transaction needs none.
func TestNoTransaction(t *testing.T) {
	var none *Transaction
	if none.Len() != 0 || !none.AwaitQueued() || none.Keep(nil) || none.Propagates() {
		t.Error("a nil Transaction does something")
	}
	none.End()
}

// TestOwnCommandsAfterExec checks that Leash's own replies replace those of the PINGs in EXEC's
// reply, and that Leash runs no command that Redis refused.
func TestOwnCommandsAfterExec(t *testing.T) {
	own := func(name string) queued { return queued{command: &command.Command{Name: name}} }
	double := queued{amend: func(_ *links.Node, element []byte) []byte { return slices.Concat(element, element) }}
	multi, byRedis := queued{}, queued{}
	for _, test := range []struct {
		name        string
		queue       []queued
		reply, want string
		ran         int
	}{
		{"a PING", []queued{multi, byRedis, own("client|id")}, "*2\r\n+OK\r\n+PONG\r\n", "*2\r\n+OK\r\n$3\r\nown\r\n", 1},
		{"refused by Redis", []queued{multi, own("hello")}, "*1\r\n-ERR no\r\n", "*1\r\n-ERR no\r\n", 0},
		{"corrected", []queued{multi, double, byRedis}, "*2\r\n:1\r\n:2\r\n", "*2\r\n:1\r\n:1\r\n:2\r\n", 0},
		{"a right that was taken away", []queued{multi, own("select")}, "*1\r\n+PONG\r\n", "*1\r\n-NOPERM ACLs rules " +
			"changed between the moment the transaction was accumulated and the EXEC call. This command is no longer " +
			"allowed for the following reason: no permission to execute the command or subcommand\r\n", 1},
		{"watched keys have changed", []queued{multi, own("client|id")}, "*-1\r\n", "*-1\r\n", 0},
		{"an error", []queued{multi, own("client|id")}, "-EXECABORT no\r\n", "-EXECABORT no\r\n", 0},
		{"too few", []queued{multi, own("client|id"), byRedis}, "*2\r\n+PONG\r\n", "-" + merge.Mismatch + "\r\n", 1},
	} {
		s := newSession()
		tx := New(Config{Session: s, Router: &route.Router{Config: route.Config{Calls: &s.calls}}})
		if !tx.runQueued(test.queue, []byte(test.reply)) {
			t.Errorf("%s: the session has ended", test.name)
		}
		s.out.Flush()
		if got := string(s.written); got != test.want || len(s.ran) != test.ran {
			t.Errorf("%s: got %q and %q, want %q and %d commands", test.name, got, s.ran, test.want, test.ran)
		}
	}
}

// TestErrorOfExec checks which error EXEC gets when nothing may be executed. Redis reports a second
// slot only if no error came before it.
func TestErrorOfExec(t *testing.T) {
	for _, test := range []struct {
		crossedAt, failedAt int
		aborted             bool
		want                string
	}{
		{crossedAt: 2, want: msgCrossSlot},
		{crossedAt: 2, failedAt: 3, aborted: true, want: msgCrossSlot},
		{crossedAt: 3, failedAt: 2, aborted: true, want: msgExecAbort},
		{failedAt: 1, aborted: true, want: msgExecAbort},
	} {
		tx := &Transaction{crossedAt: test.crossedAt, failedAt: test.failedAt, aborted: test.aborted}
		if got := string(tx.unexecuted()); got != "-"+test.want+"\r\n" {
			t.Errorf("%+v: got %q", test, got)
		}
	}
}

// TestRedirectsNeverReachAClient checks the error for a transaction whose slot cannot be reached.
func TestRedirectsNeverReachAClient(t *testing.T) {
	for moved, want := range map[string]string{
		"-ASK 1 a:1\r\n":           "-" + call.TryAgain + "\r\n",
		"-MOVED 1 a:1\r\n":         "-" + call.ErrorUnserved + "\r\n",
		"-CLUSTERDOWN no\r\n":      "-CLUSTERDOWN no\r\n",
		"-TRYAGAIN moving\r\n":     "-TRYAGAIN moving\r\n",
		"-" + merge.NotSent + "\r": "-" + merge.NotSent + "\r",
	} {
		if got := string(clientError([]byte(moved))); got != want {
			t.Errorf("%q: got %q, want %q", moved, got, want)
		}
	}
}
