package wait

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
)

// fakeRedis is Redis as a Machine sees it: a call takes trip. It is also the subscriber, and runs
// the tasks.
type fakeRedis struct {
	trip       time.Duration
	unready    chan struct{} // subscriptions wait for it; nil if they do not
	tasks      sync.WaitGroup
	mu         sync.Mutex
	handle     map[string]func([]byte)
	left       []string // entries that left the turns
	tellsAfter []int64  // calls of TellOthers
	dequeued   [][]string
	refuses    error // the error of the next Dequeue
}

func (r *fakeRedis) Dequeue(_ script.Lock, owners []string, _ time.Time) error {
	time.Sleep(r.trip)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dequeued = append(r.dequeued, owners)
	err := r.refuses
	r.refuses = nil
	return err
}

// calls is the number of calls of Dequeue.
func (r *fakeRedis) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.dequeued)
}

func (r *fakeRedis) LeaveTurns(_ script.Lock, _ *script.Mode, entry, _ string, _ time.Time) {
	time.Sleep(r.trip)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = append(r.left, entry)
}

func (r *fakeRedis) RoundTrip() time.Duration { return r.trip }

func (r *fakeRedis) Sleep(_ context.Context, d time.Duration) bool {
	time.Sleep(d)
	return true
}

func (r *fakeRedis) Spawn(f func()) bool {
	r.tasks.Go(f)
	return true
}

func (r *fakeRedis) Subscribe(channel string, _, _ bool, handle func([]byte)) (<-chan struct{}, func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle[channel] = handle
	ready := r.unready
	if ready == nil {
		ready = make(chan struct{})
		close(ready)
	}
	return ready, func() {}
}

func (r *fakeRedis) publish(message string) {
	r.mu.Lock()
	handle := r.handle[testQueue.Channel]
	r.mu.Unlock()
	if handle != nil {
		handle([]byte(message))
	}
}

func (r *fakeRedis) entries() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.left)
}

func (r *fakeRedis) TellHere(script.Lock) {}

func (r *fakeRedis) TellOthers(_ script.Lock, after int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tellsAfter = append(r.tellsAfter, after)
	return true
}

// leash is a Machine with its Redis.
type leash struct {
	*Machine[reply]
	redis *fakeRedis
}

func newLeash() leash {
	r := &fakeRedis{trip: time.Millisecond, handle: make(map[string]func([]byte))}
	channels := &event.Subscriptions{From: r, Plain: true}
	l := leash{New[reply](Config{
		Leash: "uuid", Redis: r, Channels: channels, Tasks: r, Interval: Interval, Timeout: 2 * time.Second, Max: 3,
	}), r}
	channels.To = receiver{l}
	return l
}

// receiver passes wake-ups on, as lockcmd does.
type receiver struct{ leash }

func (r receiver) Receive(event.Event) {}

func (r receiver) Wake(lock script.Lock, channel string, reserved bool) {
	if reserved {
		r.Reserved(QueueID{lock, channel})
		return
	}
	r.Machine.Wake(QueueID{lock, channel})
}

// waiting is a command that waits.
type waiting struct {
	Command
	attempts atomic.Int64
	answer   atomic.Pointer[reply] // of its attempts
	gone     context.CancelFunc
	done     chan struct{} // closed at its end
	r        reply
	end      End
	took     time.Duration
}

// start begins to wait. The attempts of the command are answered with r.
func (l leash) start(r reply, block time.Duration) *waiting {
	w := &waiting{done: make(chan struct{})}
	w.answer.Store(&r)
	wt := Wait[reply]{Queue: testQueue, Command: &w.Command, Turns: script.Plain, Holders: l.redis}
	wt.Request = &fakeRequest{attempt: func() reply {
		w.attempts.Add(1)
		time.Sleep(l.redis.trip)
		return *w.answer.Load()
	}}
	began := time.Now()
	if block > 0 {
		wt.End = began.Add(block)
	}
	ctx, gone := context.WithCancel(context.Background())
	w.gone = gone
	l.Begin(&w.Command)
	go func() {
		defer close(w.done)
		defer gone()
		defer l.Machine.End(&w.Command)
		defer func() { _ = recover() }()
		w.r, w.end = l.Wait(ctx, wt, isTaken)
		w.took = time.Since(began)
	}()
	synctest.Wait()
	return w
}

func (w *waiting) want(t *testing.T, r reply, why Reason, after time.Duration) {
	t.Helper()
	<-w.done
	if w.r != r || w.end.Reason != why || w.took < after || w.took > after+100*time.Millisecond {
		t.Errorf("got %v for reason %v after %v, want %v, %v, %v", w.r, w.end.Reason, w.took, r, why, after)
	}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T, l leash)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLeash()
		test(t, l)
		l.redis.tasks.Wait()
		if n := l.Stats.Waiters.Load(); n != 0 || len(l.byID)+len(l.counts)+len(l.fair) != 0 {
			t.Errorf("%d commands still wait", n)
		}
	})
}

// TestR17LostWakeUp: Nobody tells the waiter that the lock is free. It attempts about once a
// second, and when the holder's lease is over.
func TestR17LostWakeUp(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		w := l.start(isTaken, 0)
		time.Sleep(500 * time.Millisecond)
		w.answer.Store(&isGot)
		<-w.done
		if w.r != isGot || w.took < 800*time.Millisecond || w.took > 1300*time.Millisecond || w.attempts.Load() != 2 {
			t.Errorf("got %v after %v and %d attempts", w.r, w.took, w.attempts.Load())
		}
		w = l.start(reply{Taken, Outcome{Left: 300 * time.Millisecond}}, 0)
		time.Sleep(100 * time.Millisecond)
		w.answer.Store(&isGot)
		w.want(t, isGot, Answered, 300*time.Millisecond)
	})
}

// TestR17MessageBeforeTheSubscription: The lock is freed before the subscription is ready, so the
// waiter attempts when it is.
func TestR17MessageBeforeTheSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		l.redis.unready = make(chan struct{})
		w := l.start(isGot, 0)
		if w.attempts.Load() != 0 {
			t.Error("it attempts before anything has happened")
		}
		time.Sleep(100 * time.Millisecond)
		close(l.redis.unready)
		w.want(t, isGot, Answered, 100*time.Millisecond)
	})
}

// TestR18MessageDuringAnAttempt: Messages during an attempt cause one more.
func TestR18MessageDuringAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		w := l.start(isTaken, 500*time.Millisecond)
		for range 3 {
			l.redis.publish("0")
		}
		w.want(t, isTaken, TimeOver, 500*time.Millisecond)
		if n := w.attempts.Load(); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
	})
}

// TestBlockEnds: The answer at the end of BLOCK is the last one of Redis, if there was one.
func TestBlockEnds(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		l.start(isTaken, 3*time.Second).want(t, isTaken, TimeOver, 3*time.Second)
		l.start(isBusy, 3*time.Second).want(t, isTaken, TimeOver, 3*time.Second) // taken at first
		w := l.start(isTaken, 0)
		if !w.Unblock(true) || w.Unblock(true) {
			t.Error("want to unblock it once")
		}
		w.want(t, isTaken, TimeOver, 0)
	})
}

// TestR19GrantAtTheEndOfBlock: A release is in progress at the end of BLOCK. The waiter waits for
// it, but not for longer than the slack.
func TestR19GrantAtTheEndOfBlock(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		for _, late := range []bool{false, true} {
			w := l.start(isTaken, time.Second)
			time.Sleep(900 * time.Millisecond)
			head, at, ok := l.Claim(testLock, script.Plain, 0)
			if !ok || at != (Position{script.PlaceFirst, script.BehindNobody}) {
				t.Fatalf("claimed %v, at %v", ok, at)
			}
			if time.Sleep(600 * time.Millisecond); late {
				time.Sleep(blockSlack)
			}
			if l.Grant(head, isGot, true) == late {
				t.Errorf("late %v: granted %v", late, !late)
			}
			if late {
				w.want(t, isTaken, TimeOver, time.Second+blockSlack)
			} else {
				w.want(t, isGot, Answered, 1500*time.Millisecond)
			}
			if w.end.CopyPending == late {
				t.Error("it does not know of the copy of the hand-over")
			}
		}
	})
}

// TestR19ClientLeaves: The client is gone, also while a release has claimed it or has granted the
// lock.
func TestR19ClientLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		first, second := l.start(isTaken, 0), l.start(isGot, 0)
		time.Sleep(100 * time.Millisecond)
		first.gone()
		first.want(t, isTaken, Gone, 100*time.Millisecond)
		second.want(t, isGot, Answered, 100*time.Millisecond)
		w := l.start(isTaken, 0)
		time.Sleep(100 * time.Millisecond)
		head, _, _ := l.Claim(testLock, script.Plain, 0)
		w.gone()
		w.want(t, isTaken, Gone, 100*time.Millisecond)
		if l.Grant(head, isGot, false) {
			t.Error("a client that is gone got the lock")
		}
	})
}

// TestPanicOfAnAttempt: The attempt of the first waiter panics. The one behind it goes on.
func TestPanicOfAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		w := l.start(isTaken, 0)
		behind := l.start(isGot, 0)
		w.answer.Store(nil)
		l.redis.publish("0")
		<-w.done
		<-behind.done
		if behind.r != isGot {
			t.Errorf("got %v", behind.r)
		}
	})
}

// TestR31Drain: All waits end, and each later one.
func TestR31Drain(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		all := []*waiting{l.start(isTaken, 0), l.start(isTaken, 0)}
		l.Drain()
		for _, w := range append(all, l.start(isTaken, 0)) {
			w.want(t, isTaken, Drained, 0)
		}
	})
}

// TestTooManyWait: Only so many commands may wait at once.
func TestTooManyWait(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		all := []*waiting{l.start(isTaken, 0), l.start(isTaken, 0), l.start(isTaken, 0)}
		if c := new(Command); l.Begin(c) || l.Stats.Limited.Load() != 1 {
			t.Error("one more may wait")
		} else if ended, _ := l.End(c); ended {
			t.Error("it has waited")
		}
		for _, w := range all {
			w.gone()
			<-w.done
		}
	})
}

// TestR21WaiterThatComesWhileItsLeashLeaves: The last waiter leaves, so its Leash leaves the list
// of turns. A waiter that comes at that time may be taken out with it, so it attempts again.
func TestR21WaiterThatComesWhileItsLeashLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		l.redis.trip = 200 * time.Millisecond
		w := l.start(isTaken, 0)
		time.Sleep(500 * time.Millisecond)
		w.gone()
		synctest.Wait() // its Leash leaves
		next := l.start(isTaken, 0)
		time.Sleep(l.redis.trip + 10*time.Millisecond) // its first attempt may have come before that
		if n := next.attempts.Load(); l.redis.entries() != 1 || n != 2 {
			t.Errorf("%d entries have left; %d attempts, want 2", l.redis.entries(), n)
		}
		next.answer.Store(&isGot)
		<-next.done
		if l.redis.entries() != 1 {
			t.Error("its Leash left the turns, though it got the lock")
		}
	})
}

// TestR21TurnOfThisLeash: When the lock is reserved for this Leash, its first waiter attempts.
// Without a waiter the Leash leaves.
func TestR21TurnOfThisLeash(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		turn, ok := event.Parse(TurnEvent(testLock, script.Plain))
		if !ok {
			t.Fatal("the event of a turn cannot be read")
		}
		w := l.start(isTaken, 0)
		time.Sleep(100 * time.Millisecond)
		w.answer.Store(&isGot)
		l.BeginTurn(turn)
		w.want(t, isGot, Answered, 100*time.Millisecond)
		l.BeginTurn(turn)
		time.Sleep(100 * time.Millisecond)
		if l.redis.entries() != 1 || l.redis.left[0] != "uuid/250" {
			t.Errorf("left: %v", l.redis.left)
		}
		if entry := l.Entry(script.Fair); entry != "fair/250" {
			t.Errorf("the entry of FAIR waiters is %q", entry)
		}
	})
}

// TestR21ReservedForADeadLeash: The lock is reserved for another Leash, which does not take it.
func TestR21ReservedForADeadLeash(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		w := l.start(isTaken, 0)
		time.Sleep(100 * time.Millisecond)
		w.answer.Store(&isGot)
		l.Reserved(testQueue)
		<-w.done
		if w.took < 350*time.Millisecond || w.took > 410*time.Millisecond {
			t.Errorf("it attempted after %v", w.took)
		}
	})
}

// TestR21ReservationLastsLongerFarAway: The time of a reservation follows the round trip.
func TestR21ReservationLastsLongerFarAway(t *testing.T) {
	t.Parallel()
	for trip, want := range map[time.Duration]time.Duration{
		0: minReservation, 60 * time.Millisecond: minReservation, 100 * time.Millisecond: 2 * minReservation,
		time.Hour: maxReservation,
	} {
		if got := reservation(trip); got != want {
			t.Errorf("%v away: got %v, want %v", trip, got, want)
		}
	}
}

// TestHoldersAreTold: The holders are told after a moment, then more and more rarely, and soon when
// another one may have the lock. A hand-over within another Leash sends no message, so the notifier
// learns the new holder from its token.
func TestHoldersAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, l leash) {
		w := l.start(reply{Taken, Outcome{Token: 7}}, 0)
		told := func() int {
			l.redis.mu.Lock()
			defer l.redis.mu.Unlock()
			return len(l.redis.tellsAfter)
		}
		if time.Sleep(2 * wantedDelay); told() != 1 {
			t.Errorf("told %d times at first, want 1", told())
		}
		if time.Sleep(100 * time.Second); told() < 10 || told() > 22 {
			t.Errorf("told %d times in 100 s, want about one attempt in %d", told(), maxWantedPace)
		}
		before := told()
		w.answer.Store(&reply{Taken, Outcome{Token: 8}})
		l.redis.publish("0")
		if time.Sleep(2 * wantedDelay); told() != before+1 {
			t.Errorf("told %d times of a new holder, want 1", told()-before)
		}
		w.gone()
		<-w.done
	})
}
