package wait_test

import (
	"context"
	"fmt"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// grant is the result of an attempt.
type grant struct{ token int64 }

func (g grant) Outcome() wait.Outcome {
	if g.token == 0 {
		return wait.Outcome{State: wait.Taken}
	}
	return wait.Outcome{State: wait.Got}
}

// request finds the lock taken.
type request struct{}

func (request) Attempt(time.Time, wait.Position) grant                          { return grant{} }
func (request) PassesOn(wait.Request[grant], grant, bool) bool                  { return false }
func (request) TakesFrom(m *script.Mode) bool                                   { return m == script.Plain }
func (request) Dequeue(script.Lock, []string, time.Time) error                  { return nil }
func (request) LeaveTurns(script.Lock, *script.Mode, string, string, time.Time) {}
func (request) RoundTrip() time.Duration                                        { return time.Millisecond }
func (request) Sleep(context.Context, time.Duration) bool                       { return true }
func (request) Spawn(f func()) bool                                             { f(); return true }
func (request) Receive(event.Event)                                             {}
func (request) Wake(script.Lock, string, bool)                                  {}
func (request) Subscribe(string, bool, bool, func([]byte)) (<-chan struct{}, func()) {
	ready := make(chan struct{})
	close(ready)
	return ready, func() {}
}

// A command waits for a lock, and the release of the lock hands it over.
func Example() {
	m := wait.New[grant](wait.Config{
		Leash: "a", Redis: request{}, Channels: &event.Subscriptions{From: request{}, To: request{}},
		Tasks: request{}, Interval: wait.Interval, Timeout: time.Second, Max: 100,
	})
	lock := script.Lock{Key: "order:42"}
	queue := wait.QueueID{Lock: lock, Channel: script.LockChannel(lock.Key)}
	go func() { // the release
		for {
			if w, _, ok := m.Claim(lock, script.Plain, 0); ok {
				m.Grant(w, grant{token: 7}, false)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var command wait.Command
	if !m.Begin(&command) {
		fmt.Println("too many commands wait")
		return
	}
	defer m.End(&command)
	got, end := m.Wait(context.Background(), wait.Wait[grant]{
		Queue: queue, Request: request{}, Command: &command, End: time.Now().Add(time.Minute),
	}, grant{})
	fmt.Println(got.token, end.Reason == wait.Answered)
	// Output: 7 true
}
