package wait_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestPermitWaitersAreLimited(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{MaxWaiters: 1})
	key, a := locktest.Semaphore(t, s, 1), locktest.Connect(t, s)
	p := a.Permit(key, "BLOCK", "0") // a request that need not wait is not refused
	reply := locktest.Connect(t, s).StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
	locktest.Want(t, a.Do("SEM.ACQUIRE", key, "BLOCK", "0"), "-"+refusal.TooMany)
	locktest.Want(t, a.Do("SEM.TAKE", key, "BLOCK", "0"), "-"+refusal.TooMany)
	locktest.Want(t, a.Do("SEM.RELEASE", key, p), ":1")
	locktest.PermitOf(t, locktest.Receive(t, reply, 5*time.Second))
}

func TestPermitWaitersAreWoken(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		key, a, b := locktest.Semaphore(t, s, 1), locktest.Connect(t, s), locktest.Connect(t, other)
		p := a.Permit(key)
		reply := b.StartInQueue(other, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		locktest.Eventually(t, 5*time.Second, "b listens", func() bool {
			return locktest.Listeners(t, rdb, script.PermitChannel(key)) == 1
		})
		locktest.Want(t, a.Do("SEM.RELEASE", key, p), ":1")
		q := locktest.PermitOf(t, locktest.Woken(t, reply))
		if _, _, _, waiters := b.SemaphoreInfo(key); waiters != 0 || q == p {
			t.Error("the waiter still stands there, or got the old permit")
		}
		began := time.Now()
		locktest.Want(t, a.Do("SEM.ACQUIRE", key, "BLOCK", "200"), "$-1")
		if took := time.Since(began); took < 200*time.Millisecond || took > locktest.Soon {
			t.Errorf("BLOCK 200 took %v", took)
		}
		b.Carrier.End(lockcmd.Release)
		a.Permit(key)
	})
}

// TestR18ReleaseOfSeveralPermitsServesAsManyWaiters: A client gives several permits back at once.
// All waiters of the same Leash get one at once.
func TestR18ReleaseOfSeveralPermitsServesAsManyWaiters(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, n := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), 4
		key, a := locktest.Semaphore(t, s, n), locktest.Connect(t, s)
		for range 5 {
			permits := a.Permits(n, key, "COUNT", strconv.Itoa(n))
			var clients []*locktest.Client
			var replies []<-chan string
			for i := range n {
				c := locktest.Connect(t, s)
				clients = append(clients, c)
				replies = append(replies, c.StartInQueue(s, i+1, locktest.PermitsOf(key), "SEM.ACQUIRE", key,
					"BLOCK", "0"))
			}
			locktest.Eventually(t, locktest.Soon, "they listen", func() bool {
				return locktest.Listeners(t, rdb, script.PermitChannel(key)) == 1
			})
			locktest.Want(t, a.Do(append([]string{"SEM.RELEASE", key}, permits...)...), ":"+strconv.Itoa(n))
			for _, reply := range replies {
				locktest.PermitOf(t, locktest.Woken(t, reply))
			}
			for _, c := range clients {
				locktest.Want(t, c.Do("SEM.RELEASE", key), ":1")
			}
		}
	})
}

// TestR17APermitIsTakenWhenItsLeaseEnds: A JVM died with a permit, so no message will come. A
// waiter gets the permit when its lease expires.
func TestR17APermitIsTakenWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		key := locktest.Semaphore(t, s, 1)
		began := time.Now()
		locktest.JavaPermit(t, rdb, key, locktest.PermitNumber(1), began.Add(400*time.Millisecond))
		locktest.Connect(t, s).Permit(key, "BLOCK", "0")
		if took := time.Since(began); took < 350*time.Millisecond || took > locktest.Soon {
			t.Errorf("it took %v, want the rest of the lease", took)
		}
		if n := rdb.ZCard(t.Context(), script.PermitsKey(key)).Val(); n != 1 {
			t.Errorf("%d permits are out, want 1", n)
		}
	})
}

func TestR18PermitsAndCountersShareOneQueue(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		key, a := locktest.Semaphore(t, s, 2), locktest.Connect(t, s)
		held := a.Permits(2, key, "COUNT", "2")
		two := locktest.Connect(t, s).StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "COUNT", "2",
			"BLOCK", "0")
		named := locktest.Connect(t, s)
		// the ID is new
		one := named.StartInQueue(s, 2, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "ID", "one", "BLOCK", "0")
		plain := locktest.Connect(t, s).StartInQueue(s, 3, locktest.PermitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
		locktest.Want(t, a.Do("SEM.RELEASE", key, held[0]), ":1")
		select {
		case r := <-one:
			t.Fatalf("the second waiter got %q first", r)
		case <-time.After(1500 * time.Millisecond):
		}
		locktest.Want(t, a.Do("SEM.RELEASE", key, held[1]), ":1")
		locktest.WantPrefix(t, locktest.Receive(t, two, 5*time.Second), "*2")
		locktest.Want(t, a.Do("SEM.GIVE", key, "2"), ":2") // one message serves both
		p := locktest.PermitOf(t, locktest.Receive(t, one, 5*time.Second))
		locktest.Want(t, locktest.Receive(t, plain, 5*time.Second), ":1")
		last := locktest.Connect(t, s).StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		if again := named.Permit(key, "ID", "one", "BLOCK", "0"); again != p { // now the ID is known
			t.Errorf("got %s when repeated, want %s", again, p)
		}
		locktest.Want(t, named.Do("SEM.RELEASE", key), ":1")
		locktest.PermitOf(t, locktest.Receive(t, last, 5*time.Second))
	})
}

func TestR19PermitOfADisconnectedWaiterIsReleased(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		key, a, b := locktest.Semaphore(t, s, 1), locktest.Connect(t, s), locktest.Connect(t, s)
		p := b.Permit(key)
		reply := a.StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		a.Gone()
		locktest.Want(t, locktest.Receive(t, reply, time.Second), "-"+refusal.Gone)
		if s.Waits.InQueue(locktest.PermitsOf(key)) != 0 {
			t.Error("it still waits")
		}
		locktest.Want(t, b.Do("SEM.RELEASE", key, p), ":1")
		locktest.Want(t, a.Do("SEM.ACQUIRE", key), "-"+refusal.Gone)
		b.Permit(key, "BLOCK", "5000")
		if a.Carrier.Holds() != 0 || a.Guarded.Load() {
			t.Error("who is gone holds a permit")
		}
	})
}

// TestPermitsAreExact: Two Leashes and 12 connections acquire one or two of three permits. Some
// disconnect while they hold them. There are never more than three holders.
func TestPermitsAreExact(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{})}
		key := locktest.Semaphore(t, leashes[0], 3)
		var wg sync.WaitGroup
		var inside atomic.Int64
		for i := range 12 {
			wg.Go(func() {
				c, n := locktest.Connect(t, leashes[i%2]), i%3/2+1
				for round := range 25 {
					got := c.Permits(n, key, "COUNT", strconv.Itoa(n), "BLOCK", "0")
					if all := inside.Add(int64(n)); all > 3 {
						t.Errorf("%d permits of 3 are out", all)
					}
					inside.Add(-int64(n))
					if round%5 == 4 {
						c.Carrier.End(lockcmd.Release)
						c = locktest.Connect(t, leashes[i%2])
					} else if reply := c.Do(append([]string{"SEM.RELEASE", key},
						got...)...); reply != ":"+strconv.Itoa(n) {
						t.Errorf("got %q on release", reply)
					}
				}
			})
		}
		wg.Wait()
		a := locktest.Connect(t, leashes[0])
		locktest.Eventually(t, 5*time.Second, "all are back", func() bool {
			_, available, _, _ := a.SemaphoreInfo(key)
			return available == 3
		})
		if locktest.Records(rdb, key) != 0 || leashes[0].Stats().Holds+leashes[1].Stats().Holds != 0 {
			t.Error("something is left behind")
		}
	})
}

func TestR31DrainGrantsNoMorePermits(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	key, a := locktest.Semaphore(t, s, 1), locktest.Connect(t, s)
	p := a.Permit(key)
	waiting := locktest.Connect(t, s).StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
	s.Drain()
	locktest.Want(t, locktest.Receive(t, waiting, time.Second), "-"+refusal.Draining)
	locktest.Want(t, a.Do("SEM.ACQUIRE", key), "-"+refusal.Draining)
	locktest.Want(t, a.Do("SEM.RELEASE", key, p), ":1")
}
