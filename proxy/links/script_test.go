package links

import (
	"errors"
	"leash/internal/redistest"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// startScripts starts a node.
func startScripts(t *testing.T, answer func(args []string) string) (*Node, *redistest.Fake) {
	t.Helper()
	f := redistest.StartFake(t, answer)
	return start(t, f.Addr, 10*time.Second), f
}

// soon is the time by which a script must have its reply.
func soon() time.Time { return time.Now().Add(time.Minute) }

// awaitAnswers waits until no script on a link waits for a reply.
func awaitAnswers(t *testing.T, l *Link) {
	t.Helper()
	for until := time.Now().Add(time.Minute); l.scripts.number.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("scripts still wait")
		}
	}
}

func TestScript(t *testing.T) {
	n, f := startScripts(t, redistest.Echo)
	for _, word := range []string{"a", "b"} {
		reply, sent, err := n.Script(soon(), nil, 0, false, resp.AppendCommand(nil, "ECHO", word), nil)
		if string(reply) != string(resp.AppendBulk(nil, word)) || !sent || err != nil {
			t.Errorf("got %q, sent %v, %v", reply, sent, err)
		}
	}
	if got := f.Commands(); got != "ECHO a|ECHO b" {
		t.Errorf("sent %q", got)
	}
}

// TestLostScript checks that the caller learns whether Redis may have run a lost script.
func TestLostScript(t *testing.T) {
	n, f := startScripts(t, func([]string) string { return "" })
	if _, sent, err := n.Script(soon(), nil, 0, false, resp.AppendCommand(nil, "ECHO", "die"), nil); !sent ||
		err == nil {
		t.Errorf("got sent %v, %v", sent, err)
	}
	if got := f.Commands(); got != "ECHO die" {
		t.Errorf("sent %q", got)
	}
}

// TestSilentScripts checks that scripts fail at once while those in flight get no reply. When one
// of these is given up after a long silence, the next one gets a new connection.
func TestSilentScripts(t *testing.T) {
	t.Parallel() // it waits most of the time
	hold := make(chan struct{})
	defer close(hold)
	n, f := startScripts(t, func(args []string) string {
		if args[1] == "silent" {
			<-hold
		}
		return redistest.Echo(args)
	})
	ask := func(until time.Time, word string) (sent bool, err error) {
		_, sent, err = n.Script(until, nil, 0, false, resp.AppendCommand(nil, "ECHO", word), nil)
		return sent, err
	}
	silent := make(chan error)
	go func() {
		_, err := ask(time.Now().Add(5*time.Second), "silent")
		silent <- err
	}()
	l := n.Link(dial.Lane{Scripts: true})
	for until := time.Now().Add(time.Minute); !l.silent() && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	if sent, err := ask(soon(), "behind"); sent || !errors.Is(err, ErrNoLink) {
		t.Errorf("meanwhile: got sent %v, %v", sent, err)
	}
	if err := <-silent; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a reply: got %v", err)
	}
	awaitAnswers(t, l)
	if sent, err := ask(soon(), "a"); !sent || err != nil {
		t.Errorf("after that: got sent %v, %v", sent, err)
	}
	if got := f.Commands(); got != "ECHO silent|ECHO a" {
		t.Errorf("sent %q", got)
	}
}

// TestSilentScriptsOfAShortTimeout checks that the next attempt has a new connection also if an
// attempt is short because the upstream time-out is.
func TestSilentScriptsOfAShortTimeout(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	defer close(hold)
	f := redistest.StartFake(t, func(args []string) string {
		if args[1] == "silent" {
			<-hold
		}
		return redistest.Echo(args)
	})
	n := startWith(t, f.Addr, dial.Config{RedirectTimeout: time.Minute, UpstreamTimeout: longestAttempt}, Hooks{})
	ask := func(until time.Time, word string) error {
		_, _, err := n.Script(until, nil, 0, false, resp.AppendCommand(nil, "ECHO", word), nil)
		return err
	}
	began := time.Now()
	if err := ask(began.Add(longestAttempt*3/4), "silent"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a reply: got %v", err)
	}
	awaitAnswers(t, n.Link(dial.Lane{Scripts: true}))
	if err := ask(soon(), "a"); err != nil {
		t.Errorf("after %v: got %v", time.Since(began), err)
	}
}

// TestAbandonedScript checks that an abandoned script is never written if it was not written yet.
// Otherwise the caller learns that it may have run.
func TestAbandonedScript(t *testing.T) {
	n, _ := startScripts(t, redistest.Echo)
	l := n.Link(dial.Lane{Scripts: true})
	c := newScriptCall(l, 1, nil)
	if !c.state.CompareAndSwap(waiting, abandoned) || c.Take() {
		t.Error("an abandoned request is written")
	}
	c = newScriptCall(l, 1, nil)
	for range 2 { // asked again, it is the same
		if !c.Take() || c.state.CompareAndSwap(waiting, abandoned) {
			t.Error("a written request is called unsent")
		}
	}
}

// TestScriptFailsAtOnceWithoutNode: A script does not wait for a node that cannot be reached.
func TestScriptFailsAtOnceWithoutNode(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	n := start(t, ln.Addr().String(), time.Hour)
	if _, sent, err := n.Script(soon(), nil, 0, false, resp.AppendCommand(nil, "ECHO", "a"), nil); sent ||
		!errors.Is(err, ErrUnreachable) {
		t.Errorf("got sent %v, %v", sent, err)
	}
}

// TestScriptsAlone: Commands have a connection to themselves, which the next caller gets.
func TestScriptsAlone(t *testing.T) {
	release := make(chan struct{})
	n, _ := startScripts(t, func(args []string) string {
		switch args[1] {
		case "ID": // of the connection
			return ":7\r\n"
		case "blocks":
			<-release
		}
		return redistest.Echo(args)
	})
	done := make(chan error, 1)
	go func() {
		_, _, err := n.Alone(soon(), 0, 1, resp.AppendCommand(nil, "ECHO", "blocks"), nil)
		done <- err
	}()
	for range 2 {
		two := resp.AppendCommand(resp.AppendCommand(nil, "ECHO", "a"), "ECHO", "b")
		replies, sent, err := n.Alone(soon(), 0, 2, two, nil)
		if string(replies) != "$1\r\na\r\n$1\r\nb\r\n" || !sent || err != nil {
			t.Errorf("got %q, sent %v, %v", replies, sent, err)
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n.Pins().Used != 0 {
		t.Errorf("got %+v", n.Pins())
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
		reply, sent, err := n.Script(soon(), c.writeBy, 0, false, resp.AppendCommand(nil, "ECHO", c.word), nil)
		if want := c.writeBy != &past; sent != want || (err == nil) != want || errors.Is(err, ErrDropped) == want {
			t.Errorf("%s: got %q, sent %v, %v", c.word, reply, sent, err)
		}
	}
	if sent := f.Commands(); strings.Contains(sent, "ECHO late") ||
		!strings.Contains(sent, "ECHO in-time|ECHO at-any-time") {
		t.Errorf("sent %q", sent)
	}
}

// TestScriptsHaveLinksOfTheirOwn checks that scripts do not wait behind the requests of sessions.
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
	for range 2 {
		replies, sent, err := n.Scripts(soon(), 0, 3, commands, []byte("before "))
		if want := "before *2\r\n$1\r\na\r\n:1\r\n-ERR no\r\n*2\r\n$1\r\nb\r\n:1\r\n"; string(replies) != want ||
			!sent || err != nil {
			t.Errorf("got %q, sent %v, %v, want %q", replies, sent, err, want)
		}
		reply, _, err := n.Script(soon(), nil, 0, false, resp.AppendCommand(nil, "ECHO", "c"), nil)
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
	commands := resp.AppendCommand(resp.AppendCommand(nil, "ECHO", "a"), "ECHO", "die")
	if _, sent, err := n.Scripts(soon(), 0, 2, commands, nil); !sent || err == nil {
		t.Errorf("got sent %v, %v", sent, err)
	}
}

// TestSlowScriptsAtOnce checks that other scripts are sent behind a slow group.
func TestSlowScriptsAtOnce(t *testing.T) {
	t.Parallel() // it waits most of the time
	hold := make(chan struct{})
	n, f := startScripts(t, func(args []string) string {
		if args[1] == "slow" {
			<-hold
		}
		return redistest.Echo(args)
	})
	l, replies := n.Link(dial.Lane{Scripts: true, Bulk: true}), make(chan error)
	ask := func(word string) {
		_, _, err := n.Scripts(soon(), 0, 1, resp.AppendCommand(nil, "ECHO", word), nil)
		replies <- err
	}
	inFlight := func(number int64) {
		for until := time.Now().Add(time.Minute); l.scripts.number.Load() < number && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
	}
	go ask("slow")
	inFlight(1)
	time.Sleep(scriptSilence + 50*time.Millisecond) // of silence, that is
	go ask("behind")
	inFlight(2)
	close(hold)
	for range 2 {
		if err := <-replies; err != nil {
			t.Error(err)
		}
	}
	if got := f.Commands(); got != "ECHO slow|ECHO behind" {
		t.Errorf("sent %q", got)
	}
}
