package links

import (
	"errors"
	"leash/internal/redistest"
	"testing"
	"time"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// deadlineSink is a sink whose command must not be written after a certain time. When it is told
// so, it allows more time or drops the command.
type deadlineSink struct {
	sink
	until   *time.Time
	allows  time.Duration
	dropped bool
	overdue int
}

func (m *deadlineSink) Take() bool { return !m.dropped }

func (m *deadlineSink) Until() *time.Time { return m.until }

func (m *deadlineSink) Overdue() {
	m.overdue++
	if m.allows == 0 {
		m.dropped = true
		return
	}
	later := time.Now().Add(m.allows)
	m.until = &later
}

func TestLinkWritesNoOverdueCall(t *testing.T) {
	f := redistest.StartFake(t, redistest.Echo)
	l := start(t, f.Addr, 10*time.Second).Link(dial.Lane{})
	results := make(chan result, 4)
	past := time.Now().Add(-time.Second)
	over := &deadlineSink{sink: sink{name: "over", results: results}, until: &past}
	prolonged := &deadlineSink{sink: sink{name: "prolonged", results: results}, until: &past, allows: time.Minute}
	submit(l, results, "ECHO", "a")
	l.Submit(&Request{Command: resp.AppendCommand(nil, "ECHO", "b"), Sink: over, Permit: over})
	l.Submit(&Request{Command: resp.AppendCommand(nil, "ECHO", "c"), Sink: prolonged, Permit: prolonged})
	submit(l, results, "ECHO", "d")
	got := map[string]result{}
	for range 4 {
		r := next(t, results)
		got[r.name] = r
	}
	if r := got["over"]; !errors.Is(r.cause, ErrDropped) || r.written || over.overdue != 1 {
		t.Errorf("the overdue request: %+v, told %d times", r, over.overdue)
	}
	if r := got["prolonged"]; r.reply != "$1\r\nc\r\n" || prolonged.overdue != 1 {
		t.Errorf("the request with more time: %+v, told %d times", r, prolonged.overdue)
	}
	if sent := f.Commands(); sent != "ECHO a|ECHO c|ECHO d" {
		t.Errorf("sent %q, want the others in their order", sent)
	}
}

// A command that comes too late ends no connection: others wait there for their replies.
func TestOverdueCallLeavesOthersAlone(t *testing.T) {
	got, answer := make(chan struct{}), make(chan struct{})
	f := redistest.StartFake(t, func(args []string) string {
		if args[1] == "early" {
			close(got)
			<-answer
		}
		return redistest.Echo(args)
	})
	l := start(t, f.Addr, 10*time.Second).Link(dial.Lane{})
	results := make(chan result, 2)
	submit(l, results, "ECHO", "early")
	<-got
	past := time.Now().Add(-time.Second)
	over := &deadlineSink{sink: sink{name: "over", results: results}, until: &past}
	l.Submit(&Request{Command: resp.AppendCommand(nil, "ECHO", "late"), Sink: over, Permit: over})
	if r := next(t, results); r.name != "over" || !errors.Is(r.cause, ErrDropped) {
		t.Errorf("got %+v, want the overdue request dropped", r)
	}
	close(answer)
	if r := next(t, results); r.reply != "$5\r\nearly\r\n" {
		t.Errorf("the request before it: %+v, want its reply", r)
	}
}

func TestLinkAbortsWriteAtDeadline(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	// it reads nothing behind the first command
	f := redistest.StartFake(t, func([]string) string { <-ended; return "" })
	t.Cleanup(func() { close(ended) })
	l := start(t, f.Addr, 10*time.Second).Link(dial.Lane{})
	results := make(chan result, 2)
	submit(l, results, "ECHO", "first")
	request := resp.AppendCommand(nil, "ECHO", string(make([]byte, 64<<20)))
	soon := time.Now().Add(5 * time.Second)
	c := &deadlineSink{sink: sink{name: "large", results: results}, until: &soon}
	l.Submit(&Request{Command: request, Sink: c, Permit: c})
	for range 2 {
		if r := next(t, results); !r.written || r.cause == nil {
			t.Errorf("got %+v, want it lost with its connection", r)
		}
	}
}
