package redistest

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// startWithClock starts a server with its own clock. It also returns a function that says how far
// that clock is ahead of the machine's.
func startWithClock(t *testing.T) (s *Server, ahead func() time.Duration) {
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

// about reports whether got is want, up to the time that a query takes.
func about(got, want time.Duration) bool { return (got - want).Abs() < 2*time.Second }

// TestClockSteps steps the clock forward and back, across the second and across the present.
// Redis's time and expiry follow it. A restart does not change it.
func TestClockSteps(t *testing.T) {
	s, ahead := startWithClock(t)
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

// TestClockShortSteps: a step changes the remaining TTL of a key by exactly the step.
func TestClockShortSteps(t *testing.T) {
	s, _ := startWithClock(t)
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

// TestClockExpires: a step forward expires a key, and a step back does not bring it back.
func TestClockExpires(t *testing.T) {
	s, _ := startWithClock(t)
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

// TestServerWithoutClock: a server without Options.Clock has the machine's clock.
func TestServerWithoutClock(t *testing.T) {
	if s := Start(t); s.Clock != nil {
		t.Error("the server has its own clock without Options.Clock")
	}
}
