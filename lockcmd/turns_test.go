package lockcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// receiveEvents returns when Leashes receive events on their own channels.
func receiveEvents(t testing.TB, rdb redis.UniversalClient, leashes ...*Service) {
	t.Helper()
	for _, s := range leashes {
		eventually(t, 5*time.Second, "it receives events", func() bool { return listeners(t, rdb, s.Events.Own) > 0 })
	}
}

// contest lets clients on each Leash take a lock n times in all, and returns who got it, in order.
// Somebody holds the lock until all Leashes are in the list; open lets them begin.
func contest(t *testing.T, rdb redis.UniversalClient, leashes []*Service, clients, n int, acquire, release []string,
	open func()) (order []int) {
	t.Helper()
	type grant struct {
		leash int
		conn  *conn
	}
	receiveEvents(t, rdb, leashes...)
	grants := make(chan grant)
	done := make(chan struct{})
	ask := func(g grant) {
		reply := g.conn.start(acquire...)
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
			ask(grant{i, connect(t, s)})
		}
	}
	defer close(done)
	eventually(t, 10*time.Second, "all Leashes are in the list", func() bool {
		return len(turnsOf(t, rdb, acquire[1])) == len(leashes)
	})
	open()
	for range n {
		select {
		case g := <-grants:
			order = append(order, g.leash)
			want(t, g.conn.do(release...), ":1")
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range [][]string{nil, {"WRITE"}} {
			key := newKey()
			leashes := []*Service{leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries)}
			acquire := append([]string{"LOCK.ACQUIRE", key, "BLOCK", "0"}, mode...)
			release := append([]string{"LOCK.RELEASE", key}, mode...)
			holder := connect(t, leashes[0])
			holder.token(append([]string{key}, mode...)...)
			order := contest(t, rdb, leashes, 5, 200, acquire, release, func() { want(t, holder.do(release...), ":1") })
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries), newKey()
		receiveEvents(t, rdb, s, other)
		a, b, c := connect(t, s), connect(t, other), connect(t, s)
		a.token(key)
		far := b.await(other, 1, key, "BLOCK", "0")
		eventually(t, time.Second, "it is in the list", func() bool { return len(turnsOf(t, rdb, key)) == 1 })
		// The other Leash does not hear of its turn, as if it were dead.
		rdb.Set(t.Context(), script.TurnsKey(key), "0 dead/250 "+other.Holds.Leash+"/250", time.Minute)
		want(t, a.do("LOCK.RELEASE", key), ":1")
		want(t, c.do("LOCK.ACQUIRE", key), "$-1")
		began := time.Now()
		tokenOf(t, receive(t, far, 5*time.Second))
		if took := time.Since(began); took > soon {
			t.Errorf("the lock of a dead Leash was taken after %v", took)
		}
		want(t, c.do("LOCK.ACQUIRE", key), "$-1")
		want(t, b.do("LOCK.RELEASE", key), ":1")
		if turns := turnsOf(t, rdb, key); len(turns) != 0 {
			t.Errorf("the list still has %q", turns)
		}
		c.token(key)
	})
}

// TestR21ALeashWithoutWaitersLeavesTheList: The last waiter gives up. Then nothing is reserved.
func TestR21ALeashWithoutWaitersLeavesTheList(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range [][]string{nil, {"WRITE"}} {
			s, other, key := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries), newKey()
			receiveEvents(t, rdb, s, other)
			a, b := connect(t, s), connect(t, other)
			a.token(append([]string{key}, mode...)...)
			want(t, b.do(append([]string{"LOCK.ACQUIRE", key, "BLOCK", "100"}, mode...)...), "$-1")
			eventually(t, 5*time.Second, "the list is empty", func() bool { return len(turnsOf(t, rdb, key)) == 0 })
			// It is named nevertheless.
			rdb.Set(t.Context(), script.TurnsKey(key), "0 "+other.Holds.Leash+"/5000", time.Minute)
			want(t, a.do(append([]string{"LOCK.RELEASE", key}, mode...)...), ":1")
			a.token(append([]string{key, "BLOCK", "0"}, mode...)...)
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		receiveEvents(t, rdb, s)
		a, b := connect(t, s), connect(t, s)
		a.token(key)
		reply := b.await(s, 1, key, "BLOCK", "0")
		inList := func() bool { return len(turnsOf(t, rdb, key)) == 1 }
		eventually(t, 5*time.Second, "the Leash is in the list", inList)
		lock := lockOf(key)
		s.Redis.LeaveTurns(lock, script.Plain, s.Waits.Entry(script.Plain), "", s.deadline())
		s.Events.WakeChannel(script.Plain.Channel(key))
		// Without that, it would attempt again only when the TTL of 30 s is over.
		eventually(t, time.Second, "it is in the list again", inList)
		want(t, a.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, reply, 2*time.Second))
	})
}

// TestR21AWriterGetsInBetweenReadersThatOverlap: Readers on two Leashes always overlap, and a
// writer waits on one of them.
func TestR21AWriterGetsInBetweenReadersThatOverlap(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := newKey()
		leashes := []*Service{leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries)}
		receiveEvents(t, rdb, leashes...)
		readers := []*conn{connect(t, leashes[0]), connect(t, leashes[1])}
		readers[0].token(key, "READ")
		for turn := range 10 {
			writer := leashes[turn%2]
			writes := connect(t, writer)
			reply := writes.await(writer, 1, key, "WRITE", "BLOCK", "0")
			eventually(t, time.Second, "its Leash is in the list", func() bool {
				return len(turnsOf(t, rdb, key)) == 1
			})
			for _, r := range []*conn{readers[1], connect(t, writer)} {
				want(t, r.do("LOCK.ACQUIRE", key, "READ"), "$-1")
			}
			second := readers[1].start("LOCK.ACQUIRE", key, "READ", "BLOCK", "0")
			want(t, readers[0].do("LOCK.RELEASE", key), ":1")
			tokenOf(t, receive(t, reply, 2*time.Second))
			want(t, writes.do("LOCK.RELEASE", key, "WRITE"), ":1")
			tokenOf(t, receive(t, second, 2*time.Second))
			readers[0], readers[1] = readers[1], readers[0]
		}
	})
}

// TestR21ReadersOfAllLeashesShareATurn: After a writer, waiting readers are let in on both Leashes.
func TestR21ReadersOfAllLeashesShareATurn(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := newKey()
		leashes := []*Service{leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries)}
		receiveEvents(t, rdb, leashes...)
		w := connect(t, leashes[0])
		w.token(key, "WRITE")
		var replies []<-chan string
		for i := range 3 {
			for _, s := range leashes {
				replies = append(replies, connect(t, s).await(s, i+1, key, "READ", "BLOCK", "0"))
			}
		}
		eventually(t, time.Second, "both are in the list", func() bool { return len(turnsOf(t, rdb, key)) == 2 })
		want(t, w.do("LOCK.RELEASE", key, "WRITE"), ":1")
		for _, reply := range replies {
			tokenOf(t, receive(t, reply, 5*time.Second))
		}
	})
}

// TestR21LeashesTakeTurnsAtPermits: With as many clients each, two Leashes get permits as often,
// however many permits there are.
func TestR21LeashesTakeTurnsAtPermits(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, total := range []int{1, 3} {
			leashes := []*Service{leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries)}
			key := semaphore(t, leashes[0], total)
			holder, release := connect(t, leashes[0]), []string{"SEM.RELEASE", key}
			for range total {
				holder.permit(key)
			}
			order := contest(t, rdb, leashes, 5, 200, []string{"SEM.ACQUIRE", key, "BLOCK", "0"}, release, func() {
				for range total {
					want(t, holder.do(release...), ":1")
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries)
		key := semaphore(t, s, 2)
		receiveEvents(t, rdb, s, other)
		a, b, all := connect(t, s), connect(t, s), connect(t, other)
		p, q := a.permit(key), b.permit(key)
		reply := all.startInQueue(other, 1, permitsOf(key), "SEM.ACQUIRE", key, "COUNT", "2", "BLOCK", "0")
		eventually(t, time.Second, "its Leash is in the list", func() bool { return len(turnsOf(t, rdb, key)) == 1 })
		want(t, a.do("SEM.RELEASE", key, p), ":1")
		want(t, a.do("SEM.ACQUIRE", key), "$-1")
		next := a.startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		want(t, b.do("SEM.RELEASE", key, q), ":1")
		if got := receive(t, reply, 2*time.Second); !strings.HasPrefix(got, "*2") {
			t.Fatalf("got %q", got)
		}
		all.carrier.End(Release)
		permitOf(t, receive(t, next, 2*time.Second))
	})
}

// TestR21OddLists: Whatever the list has, a lock is not reserved for long.
func TestR21OddLists(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		tests := make(map[string]func(*testing.T))
		for _, text := range []string{
			"", "x", "0", "-1 dead/250", "nan dead/250", "inf dead/250", "1e400 dead/250",
			"99999999999999 dead/250", // Redis's clock was set back
			"0 dead", "0 dead/", "0 dead/x", "0 dead/99999999999999999999", "0 / /", "0 dead/-5",
			"0 " + strings.Repeat("a", 10000) + "/1",
		} {
			tests[text] = func(t *testing.T) {
				key, a := newKey(), connect(t, s)
				rdb.Set(t.Context(), script.TurnsKey(key), text, time.Minute)
				for until := time.Now().Add(12 * time.Second); ; time.Sleep(10 * time.Millisecond) {
					reply := a.do("LOCK.ACQUIRE", key)
					if strings.HasPrefix(reply, ":") {
						break
					}
					if reply != "$-1" || time.Now().After(until) {
						t.Errorf("%.40q: got %q", text, reply)
						break
					}
				}
				want(t, a.do("LOCK.RELEASE", key), ":1")
			}
		}
		runParallel(t, tests)
		key, a := newKey(), connect(t, s)
		rdb.LPush(t.Context(), script.TurnsKey(key), "no string")
		a.token(key)
		want(t, a.do("LOCK.RELEASE", key), ":1")
	})
}
