package redistest

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// ticking starts a server with a clock of its own, and returns how to ask by how much that is ahead
// of ours.
func ticking(t *testing.T) (s *Server, ahead func() time.Duration) {
	t.Helper()
	if err := ClocksWork(); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	s, err := Launch(Options{Clock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, func() time.Duration {
		t.Helper()
		now, err := s.Client().Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(now)
	}
}

// about reports whether got is want, but for the time that a question takes.
func about(got, want time.Duration) bool { return (got - want).Abs() < 2*time.Second }

// TestClockSteps: Redis's time and its expiry go by a clock that is stepped, to both sides of the
// second and of now, and the same after a restart.
func TestClockSteps(t *testing.T) {
	s, ahead := ticking(t)
	if got := ahead(); !about(got, 0) {
		t.Fatalf("a new clock is %v ahead", got)
	}
	var want time.Duration
	for _, d := range []time.Duration{time.Hour, -1500 * time.Millisecond, -3 * time.Hour, 999_999 * time.Microsecond, 24 * time.Hour} {
		want += d
		if err := s.Clock.Step(d); err != nil {
			t.Fatal(err)
		}
		if got := ahead(); !about(got, want) || s.Clock.Offset() != want {
			t.Errorf("after a step by %v it is %v ahead, and says %v; want %v", d, got, s.Clock.Offset(), want)
		}
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := ahead(); !about(got, want) {
		t.Errorf("after a restart it is %v ahead, want %v", got, want)
	}
}

// TestClockStepsOfAMoment are exact: a key has as much less time, or more, as the clock was stepped
// by.
func TestClockStepsOfAMoment(t *testing.T) {
	s, _ := ticking(t)
	c := Connect(t, s.Addr)
	began := time.Now()
	c.Want("+OK\r\n", "SET", "k", "v", "PX", "500000")
	for _, d := range []time.Duration{600 * time.Millisecond, -1300 * time.Millisecond, 700 * time.Millisecond, 20 * time.Millisecond, -100 * time.Second} {
		if err := s.Clock.Step(d); err != nil {
			t.Fatal(err)
		}
		var ms int64
		if _, err := fmt.Sscanf(c.Do("PTTL", "k"), ":%d", &ms); err != nil {
			t.Fatal(err)
		}
		most := 500*time.Second - s.Clock.Offset()
		if got := time.Duration(ms) * time.Millisecond; got > most || got < most-time.Since(began)-2*time.Millisecond {
			t.Errorf("after a step by %v it has %v left, want %v less the time that this takes", d, got, most)
		}
	}
}

// TestClockExpires: a step forward ends a key whose time was not over, and nothing brings it back.
func TestClockExpires(t *testing.T) {
	s, _ := ticking(t)
	c := Connect(t, s.Addr)
	c.Want("+OK\r\n", "SET", "k", "v", "PX", "60000")
	for _, row := range []struct {
		d    time.Duration
		want string
	}{{59 * time.Second, "$1\r\nv\r\n"}, {2 * time.Second, "$-1\r\n"}, {-time.Minute, "$-1\r\n"}} {
		if err := s.Clock.Step(row.d); err != nil {
			t.Fatal(err)
		}
		c.Want(row.want, "GET", "k")
	}
}

// TestServerWithoutClock has the machine's.
func TestServerWithoutClock(t *testing.T) {
	if s := Start(t); s.Clock != nil {
		t.Error("it has a clock of its own, which nobody asked for")
	}
}
