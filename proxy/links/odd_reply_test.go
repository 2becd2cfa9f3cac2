package links

import (
	"errors"
	"leash/internal/redistest"
	"strings"
	"testing"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/resp"
)

// TestPinnedConnectionWithInvalidID checks that an invalid reply to CLIENT ID, such as a line
// without CR, ends the connection and not the process. The link dials again until the caller is
// told that Redis cannot be reached.
func TestPinnedConnectionWithInvalidID(t *testing.T) {
	for _, id := range []string{":\n", ":\r\n", ":x\r\n", "*0\r\n", "+7\r\n", ":99999999999999999999\r\n",
		"$9999999999999\r\n"} {
		f := redistest.StartFake(t, func(args []string) string {
			if args[0] == "CLIENT" {
				return id
			}
			return redistest.Echo(args)
		})
		n := start(t, f.Addr, 200*time.Millisecond)
		l := n.Pin(dial.Lane{}, nil)
		results := make(chan result, 1)
		submit(l, results, "ECHO", "a")
		if got := next(t, results); got.cause == nil || got.written {
			t.Errorf("%q: got %+v, want a request that was not sent", id, got)
		}
		l.Unpin(false)
	}
}

// TestLinkDropsConnectionOnInvalidReply checks that an invalid reply loses its request and those
// behind it. None gets a wrong reply, and the next request goes out on a new connection.
func TestLinkDropsConnectionOnInvalidReply(t *testing.T) {
	for _, bad := range []string{
		"+OK\n", ":\n", "$3\r\nabcdef\r\n", "$-2\r\n", "*-2\r\n", "$9999999999999\r\n", "%0\r\n", "PONG\r\n",
		"|1\r\n+a\r\n+b\r\n:1\r\n", ">1\r\n+a\r\n",
		"-" + strings.Repeat("e", maxErrorReply+1) + "\r\n",
	} {
		f := redistest.StartFake(t, func(args []string) string {
			if args[1] == "bad" {
				return bad + "+behind\r\n"
			}
			return redistest.Echo(args)
		})
		n := start(t, f.Addr, 10*time.Second)
		l := n.Link(dial.Lane{})
		results := make(chan result, 3)
		for _, word := range []string{"bad", "one", "two"} {
			submit(l, results, "ECHO", word)
		}
		for range 3 {
			if got := next(t, results); got.cause == nil &&
				got.reply != string(resp.AppendBulk(nil, got.name[len("ECHO "):])) {
				t.Errorf("%.20q: got %+v: a reply to something else", bad, got)
			}
		}
		submit(l, results, "ECHO", "again")
		if got := next(t, results); got.reply != "$5\r\nagain\r\n" {
			t.Errorf("%.20q: afterwards got %+v, want what was sent", bad, got)
		}
	}
}

// TestLinkDropsConnectionOnStalledReply checks that a reply that stays incomplete delays requests
// for the upstream time-out at most.
func TestLinkDropsConnectionOnStalledReply(t *testing.T) {
	for _, begun := range []string{"$1000\r\nabc", "*2\r\n:1\r\n", "*2147483647\r\n", "+endless", "$4294967296\r\n"} {
		t.Run(begun, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			f := redistest.StartFake(t, func(args []string) string {
				if args[1] == "bad" {
					return begun
				}
				return redistest.Echo(args)
			})
			n := startWith(t, f.Addr, dial.Config{UpstreamTimeout: 4 * time.Second}, Hooks{})
			l := n.Link(dial.Lane{})
			results := make(chan result, 2)
			submit(l, results, "ECHO", "bad")
			if got := next(t, results); !errors.Is(got.cause, errStalled) || !got.written {
				t.Errorf("got %+v, want %v", got, errStalled)
			}
			submit(l, results, "ECHO", "again")
			if got := next(t, results); got.reply != "$5\r\nagain\r\n" {
				t.Errorf("afterwards got %+v, want what was sent", got)
			}
		})
	}
}

// panicking is a sink that panics.
type panicking struct{ *sink }

func (panicking) Reply([]byte, bool) Flusher { panic("panic of the test") }

// TestPanicInOneCallEndsOnlyItsConnection checks that a panic in one request loses that request and
// those behind it. The process and the link go on.
func TestPanicInOneCallEndsOnlyItsConnection(t *testing.T) {
	f := redistest.StartFake(t, redistest.Echo)
	n := start(t, f.Addr, 10*time.Second)
	l := n.Link(dial.Lane{})
	results := make(chan result, 2)
	before := guard.Panics()
	l.Submit(&Request{Command: resp.AppendCommand(nil, "ECHO", "bad"),
		Sink: panicking{&sink{name: "bad", results: results}}})
	got := next(t, results)
	if _, ok := errors.AsType[*guard.Panic](got.cause); !ok || guard.Panics() != before+1 {
		t.Errorf("got %+v and %d panics, want the panic as the cause, counted", got, guard.Panics()-before)
	}
	submit(l, results, "ECHO", "again")
	if got := next(t, results); got.reply != "$5\r\nagain\r\n" && got.cause == nil {
		t.Errorf("afterwards got %+v", got)
	}
}
