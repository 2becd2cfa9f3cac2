package links

import (
	"errors"
	"leash/internal/redistest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// startScripts starts the nodes and connects its link for scripts of database 0.
func startScripts(t *testing.T, answer func(args []string) string) (*Node, *redistest.Fake) {
	t.Helper()
	f := redistest.StartFake(t, answer)
	n := start(t, f.Addr, 10*time.Second)
	if _, sent, err := n.Script(soon(), nil, 0, resp.AppendCommand(nil, "ECHO", "first"), nil); sent ||
		!errors.Is(err, ErrNoLink) {
		t.Fatalf("without a connection: got sent %v, %v", sent, err)
	}
	awaitScriptLink(t, n.Link(dial.Lane{Scripts: true}))
	return n, f
}

// soon is the time by which a script must have its reply.
func soon() time.Time { return time.Now().Add(time.Minute) }

func awaitScriptLink(t *testing.T, l *Link) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !l.acceptsScripts(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("no connection that scripts may use")
		}
	}
}

func TestScript(t *testing.T) {
	n, f := startScripts(t, redistest.Echo)
	for _, word := range []string{"a", "b"} {
		reply, sent, err := n.Script(soon(), nil, 0, resp.AppendCommand(nil, "ECHO", word), nil)
		if string(reply) != string(resp.AppendBulk(nil, word)) || !sent || err != nil {
			t.Errorf("got %q, sent %v, %v", reply, sent, err)
		}
	}
	if got := f.Commands(); got != "ECHO a|ECHO b" {
		t.Errorf("sent %q", got)
	}
}

// TestLostScript checks that the caller learns whether Redis may have run a lost script, and that
// the next script finds no connection.
func TestLostScript(t *testing.T) {
	n, f := startScripts(t, func([]string) string { return "" })
	if _, sent, err := n.Script(soon(), nil, 0, resp.AppendCommand(nil, "ECHO", "die"), nil); !sent || err == nil {
		t.Errorf("got sent %v, %v", sent, err)
	}
	if got := f.Commands(); got != "ECHO die" {
		t.Errorf("sent %q", got)
	}
}

// TestAbandonedScript checks that an abandoned script is never written if it was not written yet.
// Otherwise the caller learns that it may have run.
func TestAbandonedScript(t *testing.T) {
	t.Parallel() // it waits most of the time
	hold := make(chan struct{})
	n, f := startScripts(t, func(args []string) string { <-hold; return redistest.Echo(args) })
	until := time.Now().Add(scriptSilence + 4*time.Second)
	if _, sent, err := n.Script(until, nil, 0, resp.AppendCommand(nil, "ECHO", "a"), nil); !sent ||
		!errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("written: got sent %v, %v", sent, err)
	}
	if _, sent, err := n.Script(soon(), nil, 0, resp.AppendCommand(nil, "ECHO", "b"), nil); sent ||
		!errors.Is(err, ErrNoLink) {
		t.Errorf("behind it: got sent %v, %v", sent, err)
	}
	close(hold)
	l := n.Link(dial.Lane{Scripts: true})
	awaitScriptLink(t, l)
	c := newScriptCall(l, 1, nil)
	if !c.state.CompareAndSwap(waiting, abandoned) || !c.Dropped() {
		t.Error("an abandoned call is written")
	}
	c = newScriptCall(l, 1, nil)
	for range 2 { // asked again, it is the same
		if c.Dropped() || c.state.CompareAndSwap(waiting, abandoned) {
			t.Error("a written call is called unsent")
		}
	}
	if got := f.Commands(); got != "ECHO a" {
		t.Errorf("sent %q", got)
	}
}

// TestScriptIsNotWrittenTooLate: a script that may only be written before a time that has passed is
// never written, and its caller knows that.
func TestScriptIsNotWrittenTooLate(t *testing.T) {
	n, f := startScripts(t, redistest.Echo)
	past, later := time.Now().Add(-time.Millisecond), time.Now().Add(time.Minute)
	for _, c := range []struct {
		word    string
		writeBy *time.Time
	}{{"late", &past}, {"in-time", &later}, {"at-any-time", nil}} {
		reply, sent, err := n.Script(soon(), c.writeBy, 0, resp.AppendCommand(nil, "ECHO", c.word), nil)
		if want := c.writeBy != &past; sent != want || (err == nil) != want || errors.Is(err, ErrDropped) == want {
			t.Errorf("%s: got %q, sent %v, %v", c.word, reply, sent, err)
		}
	}
	if sent := f.Commands(); strings.Contains(sent, "ECHO late") ||
		!strings.Contains(sent, "ECHO in-time|ECHO at-any-time") {
		t.Errorf("sent %q", sent)
	}
}

// TestScriptsHaveLinksOfTheirOwn checks that scripts do not wait behind the calls of sessions.
func TestScriptsHaveLinksOfTheirOwn(t *testing.T) {
	n, _ := startScripts(t, redistest.Echo)
	if n.Link(dial.Lane{}) == n.Link(dial.Lane{Scripts: true}) {
		t.Error("one link for both")
	}
}

// TestScriptsAtOnce checks that several commands get as many replies, in order, whatever the
// replies are, on a link for scripts.
func TestScriptsAtOnce(t *testing.T) {
	n, f := startScripts(t, func(args []string) string {
		if args[1] == "no" {
			return "-ERR no\r\n"
		}
		return "*2\r\n" + redistest.Echo(args) + ":1\r\n"
	})
	var commands []byte
	for _, word := range []string{"a", "no", "b"} {
		commands = resp.AppendCommand(commands, "ECHO", word)
	}
	if _, sent, err := n.Scripts(soon(), 0, 3, commands, nil); sent || !errors.Is(err, ErrNoLink) {
		t.Fatalf("without a connection: got sent %v, %v", sent, err)
	}
	awaitScriptLink(t, n.Link(dial.Lane{Scripts: true, Bulk: true}))
	for range 2 {
		replies, sent, err := n.Scripts(soon(), 0, 3, commands, []byte("before "))
		if want := "before *2\r\n$1\r\na\r\n:1\r\n-ERR no\r\n*2\r\n$1\r\nb\r\n:1\r\n"; string(replies) != want ||
			!sent || err != nil {
			t.Errorf("got %q, sent %v, %v, want %q", replies, sent, err, want)
		}
		reply, _, err := n.Script(soon(), nil, 0, resp.AppendCommand(nil, "ECHO", "c"), nil)
		if want := "*2\r\n$1\r\nc\r\n:1\r\n"; string(reply) != want || err != nil {
			t.Errorf("got %q, %v, want %q", reply, err, want)
		}
	}
	if got, want := f.Commands(), "ECHO a|ECHO no|ECHO b|ECHO c"; got != want+"|"+want {
		t.Errorf("sent %q", got)
	}
}

// TestScriptBuffersAreReused checks that large scripts are written without a copy, and that their
// buffers can be used again.
func TestScriptBuffersAreReused(t *testing.T) {
	n, _ := startScripts(t, redistest.Echo)
	if _, sent, err := n.Scripts(soon(), 0, 1, resp.AppendCommand(nil, "ECHO", "first"), nil); sent ||
		!errors.Is(err, ErrNoLink) {
		t.Fatalf("without a connection: got sent %v, %v", sent, err)
	}
	awaitScriptLink(t, n.Link(dial.Lane{Scripts: true, Bulk: true}))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for round := range 25 {
				word := strings.Repeat(strconv.Itoa(10*round+i)+" ", (1+i)*referenced/3)
				reply, _, err := n.Scripts(soon(), 0, 1, resp.AppendCommand(nil, "ECHO", word), nil)
				if want := string(resp.AppendBulk(nil, word)); string(reply) != want || err != nil {
					t.Errorf("got %d bytes, %v, want %d that are as they were sent", len(reply), err, len(want))
				}
			}
		})
	}
	all.Wait()
}

// TestLostScripts checks that all scripts of a group are lost when the connection ends after
// some of the replies.
func TestLostScripts(t *testing.T) {
	n, _ := startScripts(t, func(args []string) string {
		if args[1] == "die" {
			return ""
		}
		return redistest.Echo(args)
	})
	n.Scripts(soon(), 0, 1, resp.AppendCommand(nil, "ECHO", "a"), nil)
	awaitScriptLink(t, n.Link(dial.Lane{Scripts: true, Bulk: true}))
	commands := resp.AppendCommand(resp.AppendCommand(nil, "ECHO", "a"), "ECHO", "die")
	if _, sent, err := n.Scripts(soon(), 0, 2, commands, nil); !sent || err == nil {
		t.Errorf("got sent %v, %v", sent, err)
	}
}

// TestSlowScriptsAtOnce checks that other scripts are sent behind a slow group. They are not
// if one of the group was abandoned and nothing has arrived since.
func TestSlowScriptsAtOnce(t *testing.T) {
	t.Parallel() // it waits most of the time
	hold := make(chan struct{})
	n, f := startScripts(t, func(args []string) string {
		if args[1] == "slow" {
			<-hold
		}
		return redistest.Echo(args)
	})
	ask := func(until time.Time, word string) (sent bool, err error) {
		_, sent, err = n.Scripts(until, 0, 1, resp.AppendCommand(nil, "ECHO", word), nil)
		return sent, err
	}
	ask(soon(), "first")
	l := n.Link(dial.Lane{Scripts: true, Bulk: true})
	awaitScriptLink(t, l)
	behind := make(chan error)
	if sent, err := ask(time.Now().Add(scriptSilence+4*time.Second), "slow"); !sent ||
		!errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one that takes too long: got sent %v, %v", sent, err)
	}
	if sent, err := ask(soon(), "after that"); sent || !errors.Is(err, ErrNoLink) {
		t.Errorf("behind it: got sent %v, %v", sent, err)
	}
	hold <- struct{}{}
	awaitScriptLink(t, l)
	go func() { _, err := ask(soon(), "slow"); behind <- err }()
	for until := time.Now().Add(time.Minute); l.scripts.number.Load() == 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(scriptSilence + 50*time.Millisecond) // of silence, that is
	go func() { _, err := ask(soon(), "behind"); behind <- err }()
	for until := time.Now().Add(time.Minute); l.scripts.number.Load() < 2 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	close(hold)
	for range 2 {
		if err := <-behind; err != nil {
			t.Error(err)
		}
	}
	if got := f.Commands(); got != "ECHO slow|ECHO slow|ECHO behind" {
		t.Errorf("sent %q", got)
	}
}
