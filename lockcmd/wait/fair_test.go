package wait

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// TestR22DequeueGoesInBatchesTheLastFirst: One call takes up to 500 waiters out, and those that
// arrived last go first. Each is told when it is out.
func TestR22DequeueGoesInBatchesTheLastFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lock := newLeash(), script.Lock{Key: "fair"}
		var names []string
		var all []*leaver
		for i := range 2*maxDequeued + 50 {
			names = append(names, "me:"+strconv.Itoa(i))
			all = append(all, &leaver{l.Arrive(lock, names[i]), make(chan struct{})})
		}
		for i, next := range all {
			if first := l.places.add(all[(i*11)%len(all)]); first != (i == 0) {
				t.Fatalf("%v asks for a task: %v", next, first)
			}
		}
		l.dequeueAll(lock)
		for _, left := range all {
			<-left.done
		}
		for i, want := range [][]string{names[550:], names[50:550], names[:50]} {
			if got := l.redis.dequeued[i]; !slices.Equal(got, want) {
				t.Errorf("call %d took %v out, want %v", i, got, want)
			}
		}
		if len(l.redis.dequeued) != 3 || len(l.places.leaving) != 0 {
			t.Errorf("got %d calls, and %d locks are left", len(l.redis.dequeued), len(l.places.leaving))
		}
	})
}

// TestR22DequeueIsRepeated: A call without an answer is repeated.
func TestR22DequeueIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeash()
		l.redis.refuses = transport.ErrUnknown
		began := time.Now()
		<-l.Dequeue(l.Arrive(script.Lock{Key: "fair"}, "me"))
		if took := time.Since(began).Truncate(time.Second); took != time.Second || l.redis.calls() != 2 {
			t.Errorf("it took %v and %d calls", took, l.redis.calls())
		}
		l.redis.tasks.Wait()
	})
}
