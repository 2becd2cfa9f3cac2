package lockcmd

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestPermitWaitersAreLimited(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{MaxWaiters: 1})
	key, a := semaphore(t, s, 1), connect(t, s)
	p := a.permit(key, "BLOCK", "0") // a request that need not wait is not refused
	reply := connect(t, s).startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
	want(t, a.do("SEM.ACQUIRE", key, "BLOCK", "0"), "-"+refusal.Limit)
	want(t, a.do("SEM.TAKE", key, "BLOCK", "0"), "-"+refusal.Limit)
	want(t, a.do("SEM.RELEASE", key, p), ":1")
	permitOf(t, receive(t, reply, 5*time.Second))
}

func TestPermitWaitersAreWoken(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries)
		key, a, b := semaphore(t, s, 1), connect(t, s), connect(t, other)
		p := a.permit(key)
		reply := b.startInQueue(other, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		eventually(t, 5*time.Second, "b listens", func() bool {
			return listeners(t, rdb, script.PermitChannel(key)) == 1
		})
		want(t, a.do("SEM.RELEASE", key, p), ":1")
		q := permitOf(t, woken(t, reply))
		if _, _, _, waiters := b.semaphoreInfo(key); waiters != 0 || q == p {
			t.Error("the waiter still stands there, or got the old permit")
		}
		began := time.Now()
		want(t, a.do("SEM.ACQUIRE", key, "BLOCK", "200"), "$-1")
		if took := time.Since(began); took < 200*time.Millisecond || took > soon {
			t.Errorf("BLOCK 200 took %v", took)
		}
		b.carrier.End(Release)
		a.permit(key)
	})
}

// TestR17APermitIsTakenWhenItsLeaseEnds: A JVM died with a permit, so no message will come. A
// waiter gets the permit when its lease expires.
func TestR17APermitIsTakenWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		key := semaphore(t, s, 1)
		began := time.Now()
		javaPermit(t, rdb, key, permitNumber(1), began.Add(400*time.Millisecond))
		connect(t, s).permit(key, "BLOCK", "0")
		if took := time.Since(began); took < 350*time.Millisecond || took > soon {
			t.Errorf("it took %v, want the rest of the lease", took)
		}
		if n := rdb.ZCard(t.Context(), script.PermitsKey(key)).Val(); n != 1 {
			t.Errorf("%d permits are out, want 1", n)
		}
	})
}

func TestR18PermitsAndCountersShareOneQueue(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 2), connect(t, s)
		held := a.permits(2, key, "COUNT", "2")
		two := connect(t, s).startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "COUNT", "2", "BLOCK", "0")
		named := connect(t, s)
		// the ID is new
		one := named.startInQueue(s, 2, permitsOf(key), "SEM.ACQUIRE", key, "ID", "one", "BLOCK", "0")
		plain := connect(t, s).startInQueue(s, 3, permitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
		want(t, a.do("SEM.RELEASE", key, held[0]), ":1")
		select {
		case r := <-one:
			t.Fatalf("the second waiter got %q first", r)
		case <-time.After(1500 * time.Millisecond):
		}
		want(t, a.do("SEM.RELEASE", key, held[1]), ":1")
		wantPrefix(t, receive(t, two, 5*time.Second), "*2")
		want(t, a.do("SEM.GIVE", key, "2"), ":2") // one message serves both
		p := permitOf(t, receive(t, one, 5*time.Second))
		want(t, receive(t, plain, 5*time.Second), ":1")
		last := connect(t, s).startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		if again := named.permit(key, "ID", "one", "BLOCK", "0"); again != p { // now the ID is known
			t.Errorf("got %s when repeated, want %s", again, p)
		}
		want(t, named.do("SEM.RELEASE", key), ":1")
		permitOf(t, receive(t, last, 5*time.Second))
	})
}

func TestR19PermitOfADisconnectedWaiterIsReleased(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a, b := semaphore(t, s, 1), connect(t, s), connect(t, s)
		p := b.permit(key)
		reply := a.startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		a.gone()
		want(t, receive(t, reply, time.Second), "-"+refusal.Gone)
		if s.Waits.InQueue(permitsOf(key)) != 0 {
			t.Error("it still waits")
		}
		want(t, b.do("SEM.RELEASE", key, p), ":1")
		want(t, a.do("SEM.ACQUIRE", key), "-"+refusal.Gone)
		b.permit(key, "BLOCK", "5000")
		if a.carrier.Holds() != 0 || a.guarded.Load() {
			t.Error("who is gone holds a permit")
		}
	})
}

// TestPermitsAreExact: Two Leashes and 12 connections acquire one or two of three permits. Some
// disconnect while they hold them. There are never more than three holders.
func TestPermitsAreExact(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes := []*Service{leash(t, rdb, Config{}), leash(t, rdb, Config{})}
		key := semaphore(t, leashes[0], 3)
		var wg sync.WaitGroup
		var inside atomic.Int64
		for i := range 12 {
			wg.Go(func() {
				c, n := connect(t, leashes[i%2]), i%3/2+1
				for round := range 25 {
					got := c.permits(n, key, "COUNT", strconv.Itoa(n), "BLOCK", "0")
					if all := inside.Add(int64(n)); all > 3 {
						t.Errorf("%d permits of 3 are out", all)
					}
					inside.Add(-int64(n))
					if round%5 == 4 {
						c.carrier.End(Release)
						c = connect(t, leashes[i%2])
					} else if reply := c.do(append([]string{"SEM.RELEASE", key},
						got...)...); reply != ":"+strconv.Itoa(n) {
						t.Errorf("got %q on release", reply)
					}
				}
			})
		}
		wg.Wait()
		a := connect(t, leashes[0])
		eventually(t, 5*time.Second, "all are back", func() bool {
			_, available, _, _ := a.semaphoreInfo(key)
			return available == 3
		})
		if records(rdb, key) != 0 || leashes[0].Stats().Holds+leashes[1].Stats().Holds != 0 {
			t.Error("something is left behind")
		}
	})
}

func TestR31DrainGrantsNoMorePermits(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	key, a := semaphore(t, s, 1), connect(t, s)
	p := a.permit(key)
	waiting := connect(t, s).startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
	s.Drain()
	want(t, receive(t, waiting, time.Second), "-"+refusal.Draining)
	want(t, a.do("SEM.ACQUIRE", key), "-"+refusal.Draining)
	want(t, a.do("SEM.RELEASE", key, p), ":1")
}
