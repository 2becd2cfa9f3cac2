package history

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestEventsOf: the report of an error lists what happened around it, in the order of time. It
// leaves out what happened long before or after it, and what happened to other locks.
func TestEventsOf(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	timeline := &FaultTimeline{}
	h := NewHistory(timeline, log)
	at := func(ms int) time.Time { return h.start.Add(time.Duration(ms) * time.Millisecond) }
	stamp := func(ms int) string { return "time=" + at(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
	err := os.WriteFile(log, []byte(stamp(10_400)+" level=WARN msg=\"lock lost\" key=k db=0 reason=broken\n"+
		stamp(10_401)+" level=WARN msg=\"lock lost\" key=other db=0 reason=gone\n"+stamp(20_000)+" level=INFO msg=later\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	timeline.Periods = []*FaultPeriod{
		{name: "over long ago", From: at(1000), To: at(2000)},
		{name: "network cut", places: []string{"leash 1"}, From: at(3000), To: at(10_600)},
		{name: "much later", From: at(20_000)},
	}
	h.NoteLock("k", at(10_300), "LOCK.BREAK")
	h.NoteLock("other", at(10_300), "another's")
	h.holdEvents[1] = []event{{h.At(at(500)), "granted long ago"}, {h.At(at(10_500)), "ended"}}
	h.ByKey["k"] = []porcupine.Operation{granted("plain", 1, 10, 500, 501), granted("plain", 2, 11, 10_450, 10_450), ended("plain", 1, 10_500, Never)}

	err = h.Check(io.Discard, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatal("two holds at once: got no error")
	}
	_, story, _ := strings.Cut(err.Error(), "in the order of time")
	last := -1
	for _, want := range []string{"granted long ago", "FAULT network cut, leash 1", "LOCK.BREAK", "leash 1 logs: level=WARN", "ended", "FAULT OVER network cut"} {
		i := strings.Index(story, want)
		if i <= last {
			t.Errorf("%q is missing in the report, or not in its place", want)
		}
		last = i
	}
	for _, not := range []string{"over long ago", "much later", "another's", "key=other", "msg=later"} {
		if strings.Contains(story, not) {
			t.Errorf("the report has %q", not)
		}
	}
	if s := Short(err); !strings.HasPrefix(s, "k is no mutex") || strings.Contains(s, "LOCK.BREAK") {
		t.Errorf("in short: %q, want the lines without events", s)
	}
	if t.Failed() {
		t.Log(err)
	}
}
