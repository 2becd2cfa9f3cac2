package event

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leash/lockcmd/script"
)

// TestR17LastMessageIsCertain: LastMessage stays the same only while the channel was subscribed all
// the time and no message came. A waiter may then skip a retry.
func TestR17LastMessageIsCertain(t *testing.T) {
	t.Parallel()
	from := newFakeRedis()
	l := &Subscriptions{From: from, To: &fakeLeash{}, Plain: true}
	if got := l.LastMessage("c"); got != 0 {
		t.Errorf("nobody listens: got %d", got)
	}
	l.Subscribe("c", script.Lock{Key: "k"})
	if got := l.LastMessage("c"); got != 0 {
		t.Errorf("not subscribed yet: got %d", got)
	}
	close(from.ready)
	quiet := l.LastMessage("c")
	if quiet == 0 || l.LastMessage("c") != quiet {
		t.Errorf("subscribed: got %d, then %d", quiet, l.LastMessage("c"))
	}
	for _, message := range [][]byte{[]byte("0"), nil} {
		from.publish("c", message)
		if got := l.LastMessage("c"); got == 0 || got == quiet {
			t.Errorf("after message %q: got %d, as before it", message, got)
		}
		quiet = l.LastMessage("c")
	}
	l.Unsubscribe("c", false)
	l.Subscribe("c", script.Lock{Key: "k"})
	if got := l.LastMessage("c"); got == 0 || got == quiet {
		t.Errorf("after a gap: got %d, as before it", got)
	}
}

// fakeLeash is a Receiver that notes what it gets.
type fakeLeash struct{ got []string }

func (f *fakeLeash) Receive(e Event) { f.got = append(f.got, e.Kind+" "+e.Key) }

func (f *fakeLeash) Wake(lock script.Lock, channel string, reserved bool) {
	f.got = append(f.got, fmt.Sprint("wake ", lock.DB, lock.Key, channel, reserved))
}

// TestR20MessagesReachTheReceiver: Events and messages on a lock's channel reach the Leash. A
// message wakes the waiters of each database.
func TestR20MessagesReachTheReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newFakeRedis(), &fakeLeash{}
		l := &Subscriptions{From: from, To: to, Own: "own", Plain: true}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Run(ctx)
		}()
		synctest.Wait()
		for _, text := range []string{Text(Moved, 7, "leash:1.1", "a key"), "", "moved x", "moved x c k"} {
			from.publish("own", []byte(text))
		}
		l.Subscribe("c", script.Lock{Key: "k"})
		_, wake, leave := l.subscribeWaiter("c", script.Lock{DB: 1, Key: "k"})
		for _, message := range [][]byte{[]byte("0"), []byte("0 3"), nil} {
			from.publish("c", message)
		}
		want := "[moved a key wake 0kcfalse wake 1kcfalse wake 0kctrue wake 1kctrue wake 0kcfalse wake 1kcfalse]"
		if got := fmt.Sprint(to.got); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if len(wake) != 1 {
			t.Errorf("three messages are %d wake-ups, want 1", len(wake))
		}
		leave()
		l.Unsubscribe("c", true)
		time.Sleep(linger)
		if n := l.Channels(); n != 1 {
			t.Errorf("%d channels right after the last user, want 1", n)
		}
		time.Sleep(2 * sweepEvery)
		if n := l.Channels(); n != 0 || from.handles("c") {
			t.Errorf("%d channels long after the last user, want 0", n)
		}
		cancel()
		<-done
		if from.handles("own") {
			t.Error("the Leash's own channel is still subscribed")
		}
	})
}

// fakeRedis is a Subscriber for many channels.
type fakeRedis struct {
	ready    chan struct{} // the test closes it
	mu       sync.Mutex
	handlers map[string]func([]byte)
}

func newFakeRedis() *fakeRedis {
	return &fakeRedis{ready: make(chan struct{}), handlers: make(map[string]func([]byte))}
}

func (f *fakeRedis) Subscribe(channel string, _, _ bool, handle func([]byte)) (ready <-chan struct{}, cancel func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers[channel] = handle
	return f.ready, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.handlers, channel)
	}
}

func (f *fakeRedis) handles(channel string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handlers[channel] != nil
}

func (f *fakeRedis) publish(channel string, message []byte) {
	f.mu.Lock()
	handle := f.handlers[channel]
	f.mu.Unlock()
	if handle != nil {
		handle(message)
	}
}
