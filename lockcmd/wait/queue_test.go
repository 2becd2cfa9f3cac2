package wait

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leash/lockcmd/script"
)

var (
	testLock  = script.Lock{Key: "k"}
	testQueue = QueueID{testLock, script.LockChannel("k")}
)

// reply is the result of a fake attempt.
type reply struct {
	State
	more Outcome // all but the state
}

// Outcome implements Result.
func (r reply) Outcome() Outcome {
	r.more.State = r.State
	return r.more
}

var (
	isTaken = reply{State: Taken}
	isBusy  = reply{State: Busy}
	isGot   = reply{State: Got}
)

// fakeRequest asks nobody: attempt is called instead.
type fakeRequest struct {
	shares  bool
	permits bool         // a message means that there is more for others
	attempt func() reply // nil for Taken
}

func (f *fakeRequest) Attempt(time.Time, Position) reply {
	if f.attempt == nil {
		return isTaken
	}
	return f.attempt()
}

func (f *fakeRequest) PassesOn(next Request[reply], _ reply, woken bool) bool {
	return f.shares && next.(*fakeRequest).shares || f.permits && woken
}

func (f *fakeRequest) TakesFrom(m *script.Mode) bool { return m == script.Plain }

func newQueues() *Queues[reply] {
	q := new(Queues[reply])
	q.init()
	return q
}

func (q *Queues[R]) tries(w *Waiter[R]) bool {
	_, ok := q.beginAttempt(w)
	return ok
}

// TestR18WaitersAreServedInOrder: Ten waiters, each with a round trip of its own, get the lock in
// the order of their arrival. Only the first of the queue attempts.
func TestR18WaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueues()
		var attempts atomic.Int64
		order := make(chan int, 10)
		for n := range 10 {
			w := q.join(testQueue, &fakeRequest{}, false)
			go func() {
				for {
					<-w.wake
					if q.tries(w) {
						break
					}
				}
				attempts.Add(1)
				time.Sleep(time.Duration(20-n) * time.Millisecond) // the round trip
				order <- n
				q.leave(w, isGot, false)
				time.Sleep(time.Second) // it holds the lock
				q.Wake(testQueue)
			}()
			synctest.Wait()
		}
		q.WakeAll() // all are told, and one attempts
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if n := attempts.Load(); n != 1 {
			t.Errorf("%d waiters attempt at once, want 1", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for n := range 10 {
			if got := <-order; got != n {
				t.Errorf("waiter %d got the lock, want %d", got, n)
			}
		}
		if q.Waiting(testQueue) {
			t.Error("somebody still waits")
		}
	})
}

// TestR21TurnLastsForThoseThatWaitedAtItsBegin: A turn begins when a waiter gets the lock. It lasts
// for those that wait then, and not for later ones.
func TestR21TurnLastsForThoseThatWaitedAtItsBegin(t *testing.T) {
	t.Parallel()
	q := newQueues()
	join := func() *Waiter[reply] { return q.join(testQueue, &fakeRequest{}, false) }
	first, second := join(), join()
	newTurn := Position{script.PlaceFirst, script.BehindTurn}
	for _, row := range []struct {
		w    *Waiter[reply]
		want Position
	}{{first, newTurn}, {second, Position{script.PlaceTurn, script.BehindLater}}} {
		if at, ok := q.beginAttempt(row.w); !ok || at != row.want {
			t.Errorf("waiter %d: got %v, %v, want %v", row.w.arrival, at, ok, row.want)
		}
		q.leave(row.w, isGot, false)
		join() // after the turn has begun
	}
	third := q.byID[testQueue].waiters[0]
	if at, _ := q.beginAttempt(third); at != newTurn {
		t.Errorf("after the turn: got %v", at)
	}
}

// TestR18NextWaiterIsWoken: The next waiter attempts when the head leaves with nothing or shares
// the lock, and not when the head has it alone.
func TestR18NextWaiterIsWoken(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		request fakeRequest
		r       reply
		woken   bool
	}{
		"leaves with nothing": {fakeRequest{}, isTaken, true},
		"has the lock":        {fakeRequest{}, isGot, false},
		"shares the lock":     {fakeRequest{shares: true}, isGot, true},
	} {
		q := newQueues()
		head, next := q.join(testQueue, &row.request, false), q.join(testQueue, &row.request, false)
		if q.tries(next) {
			t.Errorf("%s: a waiter that is not the head attempts", what)
		}
		q.leave(head, row.r, false)
		if woken := len(next.wake) == 1; woken != row.woken || !q.isHead(next) {
			t.Errorf("%s: the next waiter is woken: %v, want %v", what, woken, row.woken)
		}
	}
}

// TestR18ClaimedWaiterPassesOnItsWakeUp: A second permit comes back while a release hands the first
// one over. The head of the queue is woken and may not attempt. The waiter behind it attempts.
func TestR18ClaimedWaiterPassesOnItsWakeUp(t *testing.T) {
	t.Parallel()
	for _, granted := range []bool{false, true} { // when it is woken
		q := newQueues()
		head, next := q.join(testQueue, &fakeRequest{permits: true}, false), q.join(testQueue, &fakeRequest{}, false)
		if w, _, ok := q.Claim(testLock, script.Plain, 0); !ok || w != head {
			t.Fatal("the head is not claimed")
		}
		if granted {
			q.Grant(head, isGot, false)
		}
		if q.tries(head) {
			t.Fatal("a claimed waiter attempts")
		}
		if !granted {
			q.Grant(head, isGot, false)
		}
		q.leave(head, isGot, false)
		if len(next.wake) != 1 {
			t.Errorf("granted %v: the next waiter is not woken", granted)
		}
	}
}

// TestOneAttemptOpensTheLatchForAllWaiters: One attempt that finds the latch open lets all waiters
// go that were in the queue when it was sent. A later waiter must try again.
func TestOneAttemptOpensTheLatchForAllWaiters(t *testing.T) {
	t.Parallel()
	q := newQueues()
	join := func() *Waiter[reply] { return q.join(testQueue, &fakeRequest{shares: true}, false) }
	first, second := join(), join()
	if q.tries(second) || !q.tries(first) {
		t.Fatal("want only the head to try")
	}
	third := join()
	q.grantAll(first, isGot)
	q.leave(first, isGot, true)
	for i, w := range []*Waiter[reply]{first, second, third} {
		if opened := len(w.granted) == 1; opened != (w == second) {
			t.Errorf("waiter %d was released: %v", i, opened)
		}
	}
	if all, _ := q.OfLock(testLock); q.InQueue(testQueue) != 1 || all != 1 || !q.tries(third) {
		t.Error("want the third to be the head")
	}
	q.leave(second, isGot, false) // grantAll has released it
	q.leave(third, reply{}, false)
	if len(q.byID)+len(q.counts) != 0 {
		t.Error("an empty queue is kept")
	}
}

// TestR21FairWaiterIsClaimedFirst: A release claims the FAIR waiter that came first, whatever the
// others wait for, and no waiter of another kind.
func TestR21FairWaiterIsClaimedFirst(t *testing.T) {
	t.Parallel()
	q := newQueues()
	if _, _, ok := q.Claim(testLock, script.Plain, 0); ok {
		t.Error("claimed nobody")
	}
	plain := q.join(testQueue, &fakeRequest{}, false)
	fair := q.join(QueueID{testLock, testQueue.Channel + ":me"}, &fakeRequest{}, true)
	if all, n := q.OfLock(testLock); all != 2 || n != 1 {
		t.Errorf("%d wait, %d of them FAIR", all, n)
	}
	if first := q.First(testLock, 10); len(first) != 2 || first[0] != plain || len(q.First(testLock, 1)) != 1 {
		t.Errorf("got %d waiters in no order", len(first))
	}
	w, _, ok := q.Claim(testLock, script.Plain, 0)
	if !ok || w != fair || q.tries(w) {
		t.Error("the FAIR waiter is not claimed")
	}
	if _, _, ok := q.Claim(testLock, script.Plain, 0); ok {
		t.Error("claimed twice")
	}
	if !q.Unclaim(w, true, false) || len(w.wake) != 1 || !w.copyPending || !q.tries(w) {
		t.Error("it does not attempt after the claim")
	}
	q.leave(fair, isTaken, false)
	if _, _, ok := q.Claim(testLock, script.Plain, MaxHandovers); ok {
		t.Error("claimed after so many hand-overs in a row, and nobody of this turn is left")
	}
	if w, _, ok := q.Claim(testLock, script.Plain, MaxHandovers-1); !ok || w != plain || q.leave(w, isTaken, false) {
		t.Error("a claimed waiter has left")
	}
	if !q.leave(plain, isTaken, true) || q.Grant(plain, isGot, false) || q.Unclaim(plain, false, false) {
		t.Error("a waiter that has left got a grant")
	}
}
