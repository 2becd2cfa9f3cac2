package hold

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRequestLockGoesInOrder: Requests get the lock in order. A request that has given up does not
// get it.
func TestRequestLockGoesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hold{Carrier: &Carrier{registry: NewRegistry(Config{})}}
		if !h.LockRequests(time.Now()) {
			t.Fatal("a free request lock cannot be taken")
		}
		order := make(chan int, 4)
		for i, patience := range []time.Duration{time.Hour, time.Second, time.Hour, time.Hour} {
			go func() {
				if h.LockRequests(time.Now().Add(patience)) {
					order <- i
				} else {
					order <- -i
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		if got := <-order; got != -1 {
			t.Errorf("got %d, want 1 to have left", got)
		}
		for _, want := range []int{0, 2, 3} {
			h.UnlockRequests()
			synctest.Wait()
			if got := <-order; got != want {
				t.Errorf("got %d, want %d next", got, want)
			}
		}
		h.UnlockRequests()
		if h.requestsLocked || len(h.readExtra().requestQueue) > 0 {
			t.Error("the request lock is not released")
		}
	})
}

// TestRequestLockAtTheEndOfTheLeash: Nobody waits for a request lock after the Leash has stopped.
func TestRequestLockAtTheEndOfTheLeash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		h := &Hold{Carrier: &Carrier{registry: NewRegistry(Config{Stopped: stop})}}
		h.LockRequests(time.Now())
		time.AfterFunc(time.Minute, func() { close(stop) })
		began := time.Now()
		if h.LockRequests(began.Add(time.Hour)) || time.Since(began) != time.Minute+time.Second {
			t.Errorf("waited for %v, want a second more than the Leash runs", time.Since(began))
		}
	})
}
