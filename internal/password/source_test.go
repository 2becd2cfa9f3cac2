package password

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted returns passwords 1, 2, 3 …
func counted() (read func(context.Context) (string, error), fail *atomic.Bool) {
	var n atomic.Int64
	fail = new(atomic.Bool)
	return func(context.Context) (string, error) {
		text := strconv.FormatInt(n.Add(1), 10)
		if fail.Load() {
			return "", errors.New("no")
		}
		return text, nil
	}, fail
}

func wantPassword(t *testing.T, s *Source, refused, want string) {
	t.Helper()
	if got, err := s.Read(refused); got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestSourceKeeps reads again after the time to keep, and when the newest password is refused.
func TestSourceKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, fail := counted()
		s := New(read, 10*time.Second, time.Minute)
		if got, err := s.First(); got != "1" || err != nil {
			t.Fatal(got, err)
		}
		wantPassword(t, s, "", "1")
		wantPassword(t, s, "1", "1") // a second has not passed
		time.Sleep(2 * time.Second)
		wantPassword(t, s, "old", "1")
		wantPassword(t, s, "1", "2")
		time.Sleep(time.Minute)
		wantPassword(t, s, "", "2") // nobody waits for the command
		synctest.Wait()
		wantPassword(t, s, "", "3")

		fail.Store(true)
		time.Sleep(time.Minute)
		wantPassword(t, s, "", "3")
		synctest.Wait()
		if got, err := s.Read(""); got != "3" || err == nil {
			t.Errorf("got %q, %v after a failure", got, err)
		}
		fail.Store(false)
		time.Sleep(retry)
		_, _ = s.Read("")
		synctest.Wait()
		wantPassword(t, s, "", "5")
	})
}

// TestSourceHangs: a reading that does not end delays callers for a second, and later ones not at
// all. Only one reading runs.
func TestSourceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var calls atomic.Int64
		s := New(func(context.Context) (string, error) { calls.Add(1); <-free; return "new", nil }, time.Second, 0)
		begin := time.Now()
		for range 3 {
			if got, err := s.Read(""); err == nil {
				t.Errorf("got %q", got)
			}
		}
		if took := time.Since(begin); took != time.Second || calls.Load() != 1 {
			t.Errorf("took %v for %d readings", took, calls.Load())
		}
		close(free)
		synctest.Wait()
		wantPassword(t, s, "", "new")
	})
}

func TestCommand(t *testing.T) {
	for _, row := range []struct{ script, want, err string }{
		{"echo secret", "secret", ""},
		{"printf 'two\\nlines\\n\\n'", "two\nlines\n", ""},
		{"printf ' a b \\r\\n'", " a b ", ""},
		{"echo", "", "wrote nothing"},
		{"echo secret; echo secret >&2; exit 3", "", "exit status 3"},
		{"yes secret | head -c 100000", "", "more than 65536 bytes"},
	} {
		got, err := Command([]string{"/bin/sh", "-c", row.script})(t.Context())
		if got != row.want || (err == nil) != (row.err == "") {
			t.Errorf("%s: got %q, %v", row.script, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), row.err) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", row.script, err)
		}
	}
	if _, err := Command([]string{"/no/such/program"})(t.Context()); err == nil {
		t.Error("a missing program is no error")
	}
}

// TestCommandThatHangs: a command that does not end is killed, and so are its children, which keep
// its output open.
func TestCommandThatHangs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Command([]string{"/bin/sh", "-c", "sleep 1000 & sleep 1000"})(ctx)
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
}
