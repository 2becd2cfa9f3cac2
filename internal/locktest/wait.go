package locktest

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd/acquire"
)

// MsgLost is the error about a hold that was lost.
func MsgLost(key, reason string) string { return string(acquire.Loss(key, reason)) }

// Soon is an upper limit for operations that nothing delays, on a busy machine. It is much shorter
// than the retry interval of SlowRetries, and shorter than the lease of a dead holder.
const Soon = 20 * time.Second

// Want fails the test if a reply is another one.
func Want(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got reply %q, want %q", got, want)
	}
}

// WantPrefix fails the test if a reply begins otherwise.
func WantPrefix(t testing.TB, got, want string) {
	t.Helper()
	if !strings.HasPrefix(got, want) {
		t.Fatalf("got reply %q, want %q...", got, want)
	}
}

// BusyTimeout returns how long a test waits for something that an idle machine does within the
// given time. A busy machine needs longer.
func BusyTimeout(within time.Duration) time.Duration { return max(10*within, Soon) }

// OnTime runs a test with exact times. If it fails and the machine had stalled, it runs the test
// again.
func OnTime(t testing.TB, test func() error) {
	t.Helper()
	const tick, stall = 10 * time.Millisecond, 200 * time.Millisecond
	for try := 1; ; try++ {
		var longest time.Duration
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for last := time.Now(); ; last = time.Now() {
				select {
				case <-stop:
					return
				case <-time.After(tick):
					longest = max(longest, time.Since(last))
				}
			}
		}()
		err := test()
		close(stop)
		<-done
		if err == nil {
			return
		}
		if longest < stall || try == 10 {
			t.Fatalf("%v, and the machine stalled for %v at the most", err, longest)
		}
		t.Logf("once more, for the machine stalled for %v: %v", longest, err)
	}
}

// Receive returns the next value of c. An idle machine delivers it within the given time. A busy
// one gets much longer.
func Receive[T any](t testing.TB, c <-chan T, within time.Duration) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(BusyTimeout(within)):
		t.Fatalf("nothing came within %v", BusyTimeout(within))
		panic("unreachable")
	}
}

// Woken returns the next value of c, which a wake-up must bring. It fails long before a retry or
// the end of a lease of 30 s could bring it.
func Woken[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Soon):
		t.Fatalf("not woken within %v", Soon)
		panic("unreachable")
	}
}

// Eventually polls until ok returns true. An idle machine needs at most the time within. A busy one
// gets much longer.
func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(BusyTimeout(within)); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", BusyTimeout(within), what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// TakesLong skips a test in the quick run.
func TakesLong(t *testing.T) { t.Helper(); redistest.TakesLong(t) }
