package wait_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
)

// fairQueue is the state in Redis of a FAIR queue.
type fairQueue struct {
	list             []string
	timeouts, alives map[string]float64
}

func readFairQueue(rdb redis.UniversalClient, key string) fairQueue {
	scores := func(zset string) map[string]float64 {
		all := make(map[string]float64)
		for _, z := range rdb.ZRangeWithScores(context.Background(), zset, 0, -1).Val() {
			all[z.Member.(string)] = z.Score
		}
		return all
	}
	return fairQueue{locktest.FairOrder(rdb, key), scores(script.QueueKeys(key)[1]), scores(script.QueueKeys(key)[2])}
}

// fillQueue adds n waiters to the queue of a key and returns their names. Every third one waits
// without a Leash. Each adds step to the scores. Waiters of a Leash count as alive until alive.
func fillQueue(rdb redis.UniversalClient, key string, n int, alive, first, step float64) (names []string) {
	ctx, keys, pipe := context.Background(), script.QueueKeys(key), rdb.Pipeline()
	for i := range n {
		name := "me:" + strconv.Itoa(i)
		if i%3 == 2 {
			name = "java:" + strconv.Itoa(i)
		} else {
			pipe.ZAdd(ctx, keys[2], redis.Z{Score: alive, Member: name})
		}
		pipe.RPush(ctx, keys[0], name)
		pipe.ZAdd(ctx, keys[1], redis.Z{Score: first + float64(i)*step, Member: name})
		names = append(names, name)
	}
	pipe.Exec(ctx)
	return names
}

// dequeueOwners runs the dequeue script once for all owners.
func dequeueOwners(t *testing.T, rdb redis.UniversalClient, key string, owners ...string) {
	t.Helper()
	if _, err := locktest.RunScript(context.Background(), rdb, script.ByName("dequeue"), script.Fair.EndKeys(key),
		append(transport.Words(script.LockChannel(key), "p", 1), owners...)...); err != nil {
		t.Error(err)
	}
}

// TestR22DequeueOfSeveralEqualsOneByOne: Waiters that are dequeued together leave the queue in the
// same state as if they had been dequeued one after the other, through Redisson or through Leash.
func TestR22DequeueOfSeveralEqualsOneByOne(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, n := range []int{1, 2, 7, 60, 1100} {
			for _, many := range []int{1, n / 2, n} {
				if n == 1100 && many != n/2 {
					continue // slow, one by one
				}
				now := float64(time.Now().UnixMilli())
				ours, javas := locktest.NewKey(), locktest.NewKey()
				for _, key := range []string{ours, javas} {
					// the scores are so far ahead that the minimum does not matter
					fillQueue(rdb, key, n, now+19e3, now+600e6, 300e3)
				}
				gone := slices.Clone(locktest.FairOrder(rdb, ours))
				rand.Shuffle(n, func(i, j int) { gone[i], gone[j] = gone[j], gone[i] })
				gone = gone[:many]
				dequeueOwners(t, rdb, ours, append(gone, "never-queued")...)
				for _, name := range gone {
					locktest.NewJavaFair(t, rdb, javas, name).GiveUp()
					rdb.ZRem(context.Background(), script.QueueKeys(javas)[2], name)
				}
				got, want := readFairQueue(rdb, ours), readFairQueue(rdb, javas)
				if !slices.Equal(got.list, want.list) || !maps.Equal(got.timeouts, want.timeouts) ||
					len(got.list) > 0 && !maps.Equal(got.alives, want.alives) {
					t.Errorf("%d of %d left: got %v, want %v", many, n, got, want)
				}
				if locktest.Exists(t, rdb, script.QueueKeys(ours)[2]) && len(got.list) == 0 {
					t.Errorf("%d of %d left, and something remains of the queue", many, n)
				}
			}
		}
	})
}

// TestR22DequeueOfSeveralReapsNobody: Dequeuing several waiters lowers the scores of the others. No
// score drops so far that its waiter counts as dead.
func TestR22DequeueOfSeveralReapsNobody(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		began, together, single := time.Now().UnixMilli(), locktest.NewKey(), locktest.NewKey()
		for _, key := range []string{together, single} {
			// for Redisson the first waiter would be dead
			fillQueue(rdb, key, 40, float64(began-5000), float64(began-5000), 100e3)
		}
		gone := []string{"me:3", "me:7", "java:8", "me:0", "me:30", "java:29"}
		dequeueOwners(t, rdb, together, gone...)
		for _, name := range gone {
			dequeueOwners(t, rdb, single, name)
		}
		took := time.Now().UnixMilli() - began
		got, want := readFairQueue(rdb, together), readFairQueue(rdb, single)
		if !slices.Equal(got.list, want.list) || len(got.list) != 34 || !maps.Equal(got.alives, want.alives) {
			t.Errorf("got %v, want %v", got, want)
		}
		least := 0
		for name, score := range want.timeouts {
			// the minimum score at some time during the test
			if score >= float64(began+60e3) && score <= float64(began+60e3+took) {
				least++
				if got.timeouts[name] < float64(began+60e3) || got.timeouts[name] > float64(began+60e3+took) {
					t.Errorf("%s: got %f, want the least, %f or some ms more", name, got.timeouts[name],
						float64(began+60e3))
				}
			} else if got.timeouts[name] != score {
				t.Errorf("%s: got %f, want %f", name, got.timeouts[name], score)
			}
		}
		if least == 0 {
			t.Error("no score came near the minimum")
		}
	})
}

// TestR22ManyDisconnectedWaitersAreDequeuedInFewCalls: The clients of thousands of waiters
// disconnect. Dequeuing them takes few calls, and no goroutine per waiter is left.
func TestR22ManyDisconnectedWaitersAreDequeuedInFewCalls(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		const n = 300
		calls := &locktest.ScriptCounter{Counted: script.ByName("dequeue"), Gate: make(chan struct{})}
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, calls.Watch), locktest.NewKey()
		holder, last := locktest.Connect(t, s), locktest.Connect(t, s)
		holder.Token(key)
		replies := make([]<-chan string, n)
		conns := make([]*locktest.Client, n)
		for i := range n {
			conns[i] = locktest.Connect(t, s)
			replies[i] = conns[i].Start("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0")
		}
		locktest.Eventually(t, 5*time.Second, "all stand in the queue",
			func() bool { return len(locktest.FairOrder(rdb, key)) == n })
		behind := locktest.NewJavaFair(t, rdb, key, "java:1")
		behind.Attempt()
		before := locktest.FairScore(rdb, key, "java:1")
		reply := last.WaitFair(rdb, n+2, key, "BLOCK", "0")
		for i := range n {
			conns[i].Gone()
		}
		for i := range n {
			// nobody is dequeued in Redis yet
			locktest.WantPrefix(t, locktest.Receive(t, replies[i], 5*time.Second), "-")
		}
		if left := len(locktest.FairOrder(rdb, key)); left != n+2 {
			t.Fatalf("got %d in the queue before Redis was asked", left)
		}
		close(calls.Gate)
		locktest.Eventually(t, 5*time.Second, "all have left",
			func() bool { return len(locktest.FairOrder(rdb, key)) == 2 })
		if got := calls.Calls.Load(); got > n/10 {
			t.Errorf("%d left in %d calls", n, got)
		}
		if got := locktest.FairScore(rdb, key, "java:1"); got != before-n*300000 {
			t.Errorf("the score of who stood behind them went from %d to %d", before, got)
		}
		locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
		if !behind.Attempt() {
			t.Fatal("java did not get the lock in its turn")
		}
		behind.Unlock()
		locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
		locktest.Want(t, last.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothingLeft(t, rdb, key)
	})
}

// abandonAttempts puts attempts of the owners into the queue, in this order, and then dequeues
// them, the first one last. Redis sees none of that before the returned function is called.
func abandonAttempts(t *testing.T, s *lockcmd.Service, key string, owners ...string) (dequeue func()) {
	t.Helper()
	var places []wait.FairPlace
	for _, owner := range owners {
		late := locktest.Connect(t, s)
		places = append(places, s.Waits.Arrive(locktest.LockOf(key), owner))
		if r := late.Send(late.FairWaiter(key, owner)); r.Outcome != script.AcquireTaken {
			t.Fatalf("got %+v", r)
		}
	}
	return func() {
		for _, p := range slices.Backward(places) {
			locktest.Receive(t, s.Waits.Dequeue(p), locktest.Soon)
		}
	}
}

// TestR22OwnerThatWaitsAgainStaysQueued: An owner's command gave up, and another command of the
// same owner waits. The dequeue request of the first does not remove the second.
func TestR22OwnerThatWaitsAgainStaysQueued(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		holder := locktest.Connect(t, s)
		holder.Token(key)
		dequeue := abandonAttempts(t, s, key, "me:1", "me:2", "me:3")
		again := locktest.Connect(t, s)
		reply := again.Await(s, 1, key, "FAIR", "BLOCK", "0", "OWNER", "me:2")
		dequeue()
		if got := locktest.FairOrder(rdb, key); !slices.Equal(got, []string{"me:2"}) {
			t.Errorf("got queue %v", got)
		}
		locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
		locktest.Want(t, again.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothingLeft(t, rdb, key)
	})
}

// TestR22DeadWaitersAreReapedInBatches: A dead Leash leaves thousands of waiters behind. Each
// script call reaps a bounded number of them, and the lock can still be acquired.
func TestR22DeadWaitersAreReapedInBatches(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		const n = 2500 // one call reaps 1000 of them
		calls := &locktest.ScriptCounter{Counted: script.AcquireFairScript}
		s, ctx, now := locktest.Start(t, rdb, lockcmd.Config{}, calls.Watch), context.Background(),
			float64(time.Now().UnixMilli())
		for _, waits := range [][]string{nil, {"BLOCK", "0"}} {
			key, a, before := locktest.NewKey(), locktest.Connect(t, s), calls.Calls.Load()
			dead := fillQueue(rdb, key, n, now-600e3, now-600e3, 1)
			rdb.RPush(ctx, script.QueueKeys(key)[0], "java:alive")
			rdb.ZAdd(ctx, script.QueueKeys(key)[1], redis.Z{Score: now + 3600e6, Member: "java:alive"})
			locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "FAIR"), "$-1")
			if got := locktest.FairOrder(rdb, key); !slices.Equal(got, []string{"java:alive"}) {
				t.Errorf("%d of %d dead remain", len(got)-1, len(dead))
			}
			ours := 0
			for _, name := range dead {
				if name[0] == 'm' {
					ours++
				}
			}
			if got, want := locktest.FairScore(rdb, key, "java:alive"),
				int64(now+3600e6)-int64(ours)*300000; got != want {
				t.Errorf("the score behind them is %d, want %d", got, want)
			}
			rdb.Del(ctx, script.QueueKeys(key)...)
			fillQueue(rdb, key, n, now-600e3, now-600e3, 1)
			a.Token(append([]string{key, "FAIR"}, waits...)...)
			if got := calls.Calls.Load() - before; got < 6 { // a slow machine needs more calls
				t.Errorf("got %d calls, want 3 each", got)
			}
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			locktest.WantNothingLeft(t, rdb, key)
		}
	})
}

// TestR22WaiterIsFoundWithoutASearch: Leash checks whether a waiter is still in the queue without
// searching it. The time for a search would grow with the queue.
func TestR22WaiterIsFoundWithoutASearch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, often := locktest.DialServer(t, server.Addr),
		func(s *lockcmd.Service) { s.Waits.Interval = 20 * time.Millisecond }
	s, key := locktest.Start(t, rdb, lockcmd.Config{}, often), locktest.NewKey()
	locktest.Connect(t, s).Token(key)
	var replies []<-chan string
	for i := range 3 {
		c := locktest.Connect(t, s)
		replies = append(replies, c.WaitFair(rdb, i+1, key, "BLOCK", "0"))
		defer func() { c.Gone(); locktest.Receive(t, replies[i], 3*time.Second) }()
	}
	for range 3 {
		heard := readFairQueue(rdb, key).alives
		locktest.Eventually(t, time.Second, "all try again", func() bool {
			now := readFairQueue(rdb, key).alives
			for name, at := range heard {
				if now[name] <= at {
					return false
				}
			}
			return len(heard) == 3
		})
	}
	stats := rdb.Info(context.Background(), "commandstats").Val()
	if strings.Contains(stats, "cmdstat_lpos:") || !strings.Contains(stats, "cmdstat_zmscore:") {
		t.Errorf("got %s", stats)
	}
}
