package lockcmd

import (
	"testing"
	"testing/synctest"
	"time"

	"leash/lockcmd/script"
)

// TestRequestLockGoesInOrder: Requests get the lock in order. A request that has given up does not
// get it.
func TestRequestLockGoesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{redis: script.New(nil)}
		h := &hold{carrier: &Carrier{service: s}}
		if !h.lockRequests(time.Now()) {
			t.Fatal("a free request lock cannot be taken")
		}
		order := make(chan int, 4)
		for i, patience := range []time.Duration{time.Hour, time.Second, time.Hour, time.Hour} {
			go func() {
				if h.lockRequests(time.Now().Add(patience)) {
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
			h.unlockRequests()
			synctest.Wait()
			if got := <-order; got != want {
				t.Errorf("got %d, want %d next", got, want)
			}
		}
		h.unlockRequests()
		if h.requestLocked || len(h.readExtra().requestQueue) > 0 {
			t.Error("the request lock is not released")
		}
	})
}

// TestRequestLockAtTheEndOfTheService: Nobody waits for a request lock after the Service has ended.
func TestRequestLockAtTheEndOfTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{redis: script.New(nil)}
		h := &hold{carrier: &Carrier{service: s}}
		h.lockRequests(time.Now())
		time.AfterFunc(time.Minute, func() { s.redis.Stop(time.Now().Add(time.Second)) })
		began := time.Now()
		if h.lockRequests(began.Add(time.Hour)) || time.Since(began) != time.Minute+time.Second {
			t.Errorf("waited for %v, want a second more than the Service runs", time.Since(began))
		}
	})
}
