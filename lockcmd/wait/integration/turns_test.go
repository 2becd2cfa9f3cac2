package wait_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

// turnsOf returns the names in the list of turns of key, in order.
func turnsOf(t testing.TB, rdb redis.UniversalClient, key string) (names []string) {
	t.Helper()
	text, err := rdb.Get(t.Context(), script.TurnsKey(key)).Result()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	for i, word := range strings.Fields(text) {
		if name, _, ok := strings.Cut(word, "/"); ok && i > 0 {
			names = append(names, name)
		}
	}
	return names
}

// contest lets clients on each Leash take a lock n times in all, and returns who got it, in order.
// Somebody holds the lock until all Leashes are in the list; open lets them begin.
func contest(t *testing.T, rdb redis.UniversalClient, leashes []*lockcmd.Service, clients, n int, acquire,
	release []string,
	open func()) (order []int) {
	t.Helper()
	type grant struct {
		leash int
		conn  *locktest.Client
	}
	locktest.ReceiveEvents(t, rdb, leashes...)
	grants := make(chan grant)
	done := make(chan struct{})
	ask := func(g grant) {
		reply := g.conn.Start(acquire...)
		go func() {
			select {
			case r := <-reply:
				if strings.HasPrefix(r, "-") {
					t.Errorf("got %s", r)
				}
				select {
				case grants <- g:
				case <-done:
				}
			case <-done:
			}
		}()
	}
	for i, s := range leashes {
		for range clients {
			ask(grant{i, locktest.Connect(t, s)})
		}
	}
	defer close(done)
	locktest.Eventually(t, 10*time.Second, "all Leashes are in the list", func() bool {
		return len(turnsOf(t, rdb, acquire[1])) == len(leashes)
	})
	open()
	for range n {
		select {
		case g := <-grants:
			order = append(order, g.leash)
			locktest.Want(t, g.conn.Do(release...), ":1")
			ask(g)
		case <-time.After(20 * time.Second):
			t.Fatalf("nobody got the lock after %d grants", len(order))
		}
	}
	return order
}

// shares counts the grants of each of two Leashes.
func shares(order []int) (grants [2]int) {
	for _, leash := range order {
		grants[leash]++
	}
	return grants
}

// TestR21LeashesTakeTurns: With as many clients each, two Leashes get a lock as often.
func TestR21LeashesTakeTurns(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range [][]string{nil, {"WRITE"}} {
			key := locktest.NewKey()
			leashes := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
				locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)}
			acquire := append([]string{"LOCK.ACQUIRE", key, "BLOCK", "0"}, mode...)
			release := append([]string{"LOCK.RELEASE", key}, mode...)
			holder := locktest.Connect(t, leashes[0])
			holder.Token(append([]string{key}, mode...)...)
			order := contest(t, rdb, leashes, 5, 200, acquire, release,
				func() { locktest.Want(t, holder.Do(release...), ":1") })
			if got := shares(order[20:]); got[0] < 75 || got[1] < 75 {
				t.Errorf("%v: got %v grants of 180", mode, got)
			}
		}
	})
}

// TestR21ALeashInTheListComesFirst: A client that does not wait, and one that comes later, do not
// overtake a Leash whose turn it is.
func TestR21ALeashInTheListComesFirst(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		locktest.ReceiveEvents(t, rdb, s, other)
		a, b, c := locktest.Connect(t, s), locktest.Connect(t, other), locktest.Connect(t, s)
		a.Token(key)
		far := b.Await(other, 1, key, "BLOCK", "0")
		locktest.Eventually(t, time.Second, "it is in the list", func() bool { return len(turnsOf(t, rdb, key)) == 1 })
		// The other Leash does not hear of its turn, as if it were dead.
		rdb.Set(t.Context(), script.TurnsKey(key), "0 dead/250 "+other.Holds.Leash+"/250", time.Minute)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, c.Do("LOCK.ACQUIRE", key), "$-1")
		began := time.Now()
		locktest.TokenOf(t, locktest.Receive(t, far, 5*time.Second))
		if took := time.Since(began); took > locktest.Soon {
			t.Errorf("the lock of a dead Leash was taken after %v", took)
		}
		locktest.Want(t, c.Do("LOCK.ACQUIRE", key), "$-1")
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		if turns := turnsOf(t, rdb, key); len(turns) != 0 {
			t.Errorf("the list still has %q", turns)
		}
		c.Token(key)
	})
}

// TestR21ALeashWithoutWaitersLeavesTheList: The last waiter gives up. Then nothing is reserved.
func TestR21ALeashWithoutWaitersLeavesTheList(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range [][]string{nil, {"WRITE"}} {
			s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
				locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
			locktest.ReceiveEvents(t, rdb, s, other)
			a, b := locktest.Connect(t, s), locktest.Connect(t, other)
			a.Token(append([]string{key}, mode...)...)
			locktest.Want(t, b.Do(append([]string{"LOCK.ACQUIRE", key, "BLOCK", "100"}, mode...)...), "$-1")
			locktest.Eventually(t, 5*time.Second, "the list is empty",
				func() bool { return len(turnsOf(t, rdb, key)) == 0 })
			// It is named nevertheless.
			rdb.Set(t.Context(), script.TurnsKey(key), "0 "+other.Holds.Leash+"/5000", time.Minute)
			locktest.Want(t, a.Do(append([]string{"LOCK.RELEASE", key}, mode...)...), ":1")
			a.Token(append([]string{key, "BLOCK", "0"}, mode...)...)
			if turns := turnsOf(t, rdb, key); len(turns) != 0 {
				t.Errorf("the list still has %q", turns)
			}
		}
	})
}

// TestR21AWaiterThatComesWhileItsLeashLeaves: A Leash without waiters leaves the list, and a waiter
// comes at that time. It enters the list again.
func TestR21AWaiterThatComesWhileItsLeashLeaves(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		locktest.ReceiveEvents(t, rdb, s)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key)
		reply := b.Await(s, 1, key, "BLOCK", "0")
		inList := func() bool { return len(turnsOf(t, rdb, key)) == 1 }
		locktest.Eventually(t, 5*time.Second, "the Leash is in the list", inList)
		lock := locktest.LockOf(key)
		s.Redis.LeaveTurns(lock, script.Plain, s.Waits.Entry(script.Plain), "", s.Redis.Deadline())
		s.Events.WakeChannel(script.Plain.Channel(key))
		// Without that, it would attempt again only when the TTL of 30 s is over.
		locktest.Eventually(t, time.Second, "it is in the list again", inList)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, reply, 2*time.Second))
	})
}

// TestR21AWriterGetsInBetweenReadersThatOverlap: Readers on two Leashes always overlap, and a
// writer waits on one of them.
func TestR21AWriterGetsInBetweenReadersThatOverlap(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.NewKey()
		leashes := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)}
		locktest.ReceiveEvents(t, rdb, leashes...)
		readers := []*locktest.Client{locktest.Connect(t, leashes[0]), locktest.Connect(t, leashes[1])}
		readers[0].Token(key, "READ")
		for turn := range 10 {
			locktest.Eventually(t, time.Second, "no Leash is in the list", func() bool {
				return len(turnsOf(t, rdb, key)) == 0
			})
			writer := leashes[turn%2]
			writes := locktest.Connect(t, writer)
			reply := writes.Await(writer, 1, key, "WRITE", "BLOCK", "0")
			locktest.Eventually(t, time.Second, "its Leash is in the list", func() bool {
				return slices.Contains(turnsOf(t, rdb, key), writer.Holds.Leash)
			})
			for _, r := range []*locktest.Client{readers[1], locktest.Connect(t, writer)} {
				locktest.Want(t, r.Do("LOCK.ACQUIRE", key, "READ"), "$-1")
			}
			second := readers[1].Start("LOCK.ACQUIRE", key, "READ", "BLOCK", "0")
			locktest.Want(t, readers[0].Do("LOCK.RELEASE", key), ":1")
			locktest.TokenOf(t, locktest.Receive(t, reply, 2*time.Second))
			locktest.Want(t, writes.Do("LOCK.RELEASE", key, "WRITE"), ":1")
			locktest.TokenOf(t, locktest.Receive(t, second, 2*time.Second))
			readers[0], readers[1] = readers[1], readers[0]
		}
	})
}

// TestR21ReadersOfAllLeashesShareATurn: After a writer, waiting readers are let in on both Leashes.
func TestR21ReadersOfAllLeashesShareATurn(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.NewKey()
		leashes := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)}
		locktest.ReceiveEvents(t, rdb, leashes...)
		w := locktest.Connect(t, leashes[0])
		w.Token(key, "WRITE")
		var replies []<-chan string
		for i := range 3 {
			for _, s := range leashes {
				replies = append(replies, locktest.Connect(t, s).Await(s, i+1, key, "READ", "BLOCK", "0"))
			}
		}
		locktest.Eventually(t, time.Second, "both are in the list",
			func() bool { return len(turnsOf(t, rdb, key)) == 2 })
		locktest.Want(t, w.Do("LOCK.RELEASE", key, "WRITE"), ":1")
		for _, reply := range replies {
			locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
		}
	})
}

// TestR21LeashesTakeTurnsAtPermits: With as many clients each, two Leashes get permits as often,
// however many permits there are.
func TestR21LeashesTakeTurnsAtPermits(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, total := range []int{1, 3} {
			leashes := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
				locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)}
			key := locktest.Semaphore(t, leashes[0], total)
			holder, release := locktest.Connect(t, leashes[0]), []string{"SEM.RELEASE", key}
			for range total {
				holder.Permit(key)
			}
			order := contest(t, rdb, leashes, 5, 200, []string{"SEM.ACQUIRE", key, "BLOCK", "0"}, release, func() {
				for range total {
					locktest.Want(t, holder.Do(release...), ":1")
				}
			})
			if got := shares(order[20:]); got[0] < 75 || got[1] < 75 {
				t.Errorf("%d permits: got %v grants of 180", total, got)
			}
		}
	})
}

// TestR21ManyPermitsAtOnceAreNotOvertaken: A client that waits for all permits gets them, though
// clients of another Leash take them one by one without a pause.
func TestR21ManyPermitsAtOnceAreNotOvertaken(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		key := locktest.Semaphore(t, s, 2)
		locktest.ReceiveEvents(t, rdb, s, other)
		a, b, all := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other)
		p, q := a.Permit(key), b.Permit(key)
		reply := all.StartInQueue(other, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "COUNT", "2", "BLOCK", "0")
		locktest.Eventually(t, time.Second, "its Leash is in the list",
			func() bool { return len(turnsOf(t, rdb, key)) == 1 })
		locktest.Want(t, a.Do("SEM.RELEASE", key, p), ":1")
		locktest.Want(t, a.Do("SEM.ACQUIRE", key), "$-1")
		next := a.StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		locktest.Want(t, b.Do("SEM.RELEASE", key, q), ":1")
		if got := locktest.Receive(t, reply, 2*time.Second); !strings.HasPrefix(got, "*2") {
			t.Fatalf("got %q", got)
		}
		all.Carrier.End(lockcmd.Release)
		locktest.PermitOf(t, locktest.Receive(t, next, 2*time.Second))
	})
}

// TestR21OddLists: Whatever the list has, a lock is not reserved for long.
func TestR21OddLists(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		tests := make(map[string]func(*testing.T))
		for _, text := range []string{
			"", "x", "0", "-1 dead/250", "nan dead/250", "inf dead/250", "1e400 dead/250",
			"99999999999999 dead/250", // Redis's clock was set back
			"0 dead", "0 dead/", "0 dead/x", "0 dead/99999999999999999999", "0 / /", "0 dead/-5",
			"0 " + strings.Repeat("a", 10000) + "/1",
		} {
			tests[text] = func(t *testing.T) {
				key, a := locktest.NewKey(), locktest.Connect(t, s)
				rdb.Set(t.Context(), script.TurnsKey(key), text, time.Minute)
				for until := time.Now().Add(12 * time.Second); ; time.Sleep(10 * time.Millisecond) {
					reply := a.Do("LOCK.ACQUIRE", key)
					if strings.HasPrefix(reply, ":") {
						break
					}
					if reply != "$-1" || time.Now().After(until) {
						t.Errorf("%.40q: got %q", text, reply)
						break
					}
				}
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			}
		}
		locktest.RunParallel(t, tests)
		key, a := locktest.NewKey(), locktest.Connect(t, s)
		rdb.LPush(t.Context(), script.TurnsKey(key), "no string")
		a.Token(key)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	})
}
