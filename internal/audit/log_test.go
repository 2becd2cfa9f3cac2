package audit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/view"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// start runs a log until stop is called.
func start(t *testing.T, l *Log) (reopen chan os.Signal, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reopen, done := make(chan os.Signal), make(chan struct{})
	go func() { defer close(done); l.Run(ctx, reopen) }()
	return reopen, func() { cancel(); <-done }
}

// lines returns the lines of a file.
func lines(t *testing.T, path string) (all []line) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for one := range strings.Lines(string(text)) {
		var l line
		if err := json.Unmarshal([]byte(one), &l); err != nil {
			t.Fatalf("%q: %v", one, err)
		}
		all = append(all, l)
	}
	return all
}

func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	_, stop := start(t, l)
	l.Observe(view.Change{Kind: view.Granted, Key: "order:42", Mode: "fair", Owner: "a:1", Token: 1 << 60,
		Client: hold.Client{Name: "[::1]:7 \"x\"", User: "ann"}, Waited: 2 * time.Second})
	l.Observe(view.Change{Kind: view.Lost, DB: 3, Key: "\xff\n", Held: 1234567 * time.Microsecond, Reason: "silence"})
	stop()
	got := lines(t, path)
	if len(got) != 2 {
		t.Fatalf("got %v", got)
	}
	for i := range got {
		if _, err := time.Parse(time.RFC3339Nano, got[i].Time); err != nil {
			t.Error(err)
		}
		got[i].Time = ""
	}
	want := line{Event: "granted", Key: "order:42", Mode: "fair", Owner: "a:1", Token: 1 << 60, User: "ann",
		Client: "[::1]:7 \"x\"", Waited: 2}
	if got[0] != want {
		t.Errorf("got %+v", got[0])
	}
	if want := (line{Event: "lost", Reason: "silence", DB: 3, KeyBase64: "/wo=", Held: 1.234}); got[1] != want {
		t.Errorf("got %+v", got[1])
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
}

// TestReopen renames the file, as a program that rotates logs does.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	reopen, stop := start(t, l)
	reopen <- os.Interrupt // it has been read: the file is open
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	reopen <- os.Interrupt
	l.Observe(view.Change{Key: "new"})
	stop()
	if old, fresh := lines(t, path+".1"), lines(t, path); len(old) != 0 || len(fresh) != 1 || fresh[0].Key != "new" {
		t.Errorf("the old file has %v, the new one %v", old, fresh)
	}
}

// fullDisk accepts half of what is written while it is full.
type fullDisk struct {
	full bool
	text strings.Builder
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if !d.full {
		return d.text.Write(p)
	}
	n, _ := d.text.Write(p[:len(p)/2])
	return n, errors.New("no space left on device")
}

func (d *fullDisk) Close() error { return nil }

func TestFullDisk(t *testing.T) {
	d := &fullDisk{full: true}
	l := &Log{path: "x", log: quiet, out: d, queue: make(chan event, waiting)}
	l.write(event{change: view.Change{Key: "lost"}})
	d.full = false
	l.write(event{change: view.Change{Key: "written"}})
	_, last, _ := strings.Cut(d.text.String(), "\n")
	if l.Dropped() != 1 || !strings.HasPrefix(last, "{") || !strings.Contains(last, `"key":"written"`) {
		t.Errorf("%d dropped, the last line is %q", l.Dropped(), last)
	}
}

// TestObserveNeverBlocks fills the queue while nobody writes.
func TestObserveNeverBlocks(t *testing.T) {
	l := &Log{queue: make(chan event, waiting)}
	for range waiting + 5 {
		l.Observe(view.Change{})
	}
	if l.Dropped() != 5 {
		t.Errorf("%d dropped, want 5", l.Dropped())
	}
}
