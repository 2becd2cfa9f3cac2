package lockcmd

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leash/lockcmd/script"
)

// fakeRequest is what a waiter of a test waits for.
type fakeRequest struct{ shares bool }

func (f fakeRequest) attempt(time.Time, position) result { return result{kind: taken} }

func (f fakeRequest) passesOn(next waitRequest, _ result, _ bool) bool {
	return f.shares && next.(fakeRequest).shares
}

func (f fakeRequest) takesFrom(*script.Mode) bool { return true }

// TestR18WaitersAreServedInOrder: Ten waiters, each with a round trip of its own, get the lock in
// the order of their arrival. Only the first of the queue attempts.
func TestR18WaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, id := newWaitQueues(), queueID{lockOf("k"), "c"}
		var attempts atomic.Int64
		order := make(chan int, 10)
		for n := range 10 {
			w := q.join(id, fakeRequest{}, false)
			go func() {
				for {
					<-w.wake
					if _, ok := q.beginAttempt(w); ok {
						break
					}
				}
				attempts.Add(1)
				time.Sleep(time.Duration(20-n) * time.Millisecond) // the round trip
				order <- n
				q.leave(w, result{kind: granted}, false)
				time.Sleep(time.Second) // it holds the lock
				q.wake(id)
			}()
			synctest.Wait()
		}
		q.wakeAll() // all are told, and one attempts
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
		if q.waiting(id) {
			t.Error("somebody still waits")
		}
	})
}

// TestR21TurnLastsForThoseThatWaitedAtItsBegin: A turn begins when a waiter gets the lock. It lasts
// for those that wait then, and not for later ones.
func TestR21TurnLastsForThoseThatWaitedAtItsBegin(t *testing.T) {
	t.Parallel()
	q, id := newWaitQueues(), queueID{lockOf("k"), "c"}
	first, second := q.join(id, fakeRequest{}, false), q.join(id, fakeRequest{}, false)
	for _, row := range []struct {
		w    *waiter
		want position
	}{
		{first, position{script.PlaceFirst, script.BehindTurn}},
		{second, position{script.PlaceTurn, script.BehindLater}},
	} {
		if at, ok := q.beginAttempt(row.w); !ok || at != row.want {
			t.Errorf("waiter %d: got %v, %v, want %v", row.w.arrival, at, ok, row.want)
		}
		q.leave(row.w, result{kind: granted}, false)
		q.join(id, fakeRequest{}, false) // after the turn has begun
	}
	third := q.byID[id].waiters[0]
	if at, _ := q.beginAttempt(third); at != (position{script.PlaceFirst, script.BehindTurn}) {
		t.Errorf("after the turn: got %v", at)
	}
}

// TestR18NextWaiterIsWoken: The next waiter attempts when the head leaves with nothing or shares
// the lock, and not when the head has it alone.
func TestR18NextWaiterIsWoken(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		request fakeRequest
		r       result
		woken   bool
	}{
		"leaves with nothing": {fakeRequest{}, result{kind: taken}, true},
		"has the lock":        {fakeRequest{}, result{kind: granted}, false},
		"shares the lock":     {fakeRequest{shares: true}, result{kind: granted}, true},
	} {
		q, id := newWaitQueues(), queueID{lockOf("k"), "c"}
		head, next := q.join(id, row.request, false), q.join(id, row.request, false)
		if _, ok := q.beginAttempt(next); ok {
			t.Errorf("%s: a waiter that is not the head attempts", what)
		}
		q.leave(head, row.r, false)
		if woken := len(next.wake) == 1; woken != row.woken || !q.isHead(next) {
			t.Errorf("%s: the next waiter is woken: %v, want %v", what, woken, row.woken)
		}
	}
}
