package release_test

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// These are scenarios of Redisson's own tests of RLock and of its fair lock. They have Redisson's
// names and shorter leases. Tests of Java objects are left out. So is what other tests here
// check: testTryLockWait (TestBlockEndsInTime, TestFairTryAndBlock), testRemainTimeToLive
// (TestR3HoldsAreRenewedAtAThird, TestR12ExtendSetsALease), testForceUnlock
// (TestR30BreakTellsTheHolderFirst, TestR27ForcedEndIsReportedAsLoss), testLockListener
// (TestR27AwaitLossReportsTheReason), testLockFailoverInCluster (TestMasterDies),
// testLockIsNotRenewedAfterInterruptedTryLock (TestR16DisconnectsAtRandom), testConcurrency…
// (TestR19ManyClientsOneLock, TestFairManyClientsOneAtATime).
func TestLockScenariosOfRedisson(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	scenarios := map[string]func(*testing.T, *lockScene){
		"testSubscriptionsPerConnection":         testSubscriptionsPerConnection,
		"testSinglePubSub":                       testSinglePubSub,
		"testRemainTimeToLive2":                  testRemainTimeToLive2,
		"testExpire":                             testExpire,
		"testAutoExpire":                         testLockAutoExpire,
		"testGetHoldCount":                       testGetHoldCount,
		"testIsHeldByCurrentThreadAndIsLocked":   testIsHeldAndIsLocked,
		"testUnlockFail":                         testLockUnlockFail,
		"testLockUnlockAndReentrancy":            testReentrancy,
		"testConcurrencyTryLockUnLock":           testConcurrencyTryLockUnLock,
		"testLockReentrantRenew":                 testLockReentrantRenew,
		"testSameThreadReacquireThrows":          testSameThreadReacquireThrows,
		"testCrossInstanceSameThreadReentry":     testCrossInstanceReentry,
		"testContendingThreadBlocksAndAcquires":  testContendingThread,
		"RedissonLockHeavyTest.lockUnlockRLock":  testHeavy,
		"RedissonSpinLockTest.testTryLockAsync*": testTryAtOnce,
	}
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		tests, s, other := make(map[string]func(*testing.T)), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{})
		for name, scenario := range scenarios {
			for _, m := range []*script.Mode{script.Plain, script.Fair} {
				tests[name+" "+m.Name] = func(t *testing.T) {
					sc := &lockScene{rdb: rdb, key: locktest.NewKey(), mode: m.Option, s: s, other: other}
					sc.a, sc.b, sc.c = locktest.Connect(t, sc.s), locktest.Connect(t, sc.s),
						locktest.Connect(t, sc.other)
					scenario(t, sc)
					locktest.WantNothingLeft(t, rdb, sc.key)
					locktest.WantNothing(t, rdb, sc.key, sc.a, sc.b, sc.c)
				}
			}
		}
		locktest.RunParallel(t, tests)
		if n := s.Stats().Holds + other.Stats().Holds + s.Stats().Waiters + other.Stats().Waiters; n != 0 {
			t.Errorf("%d holds and waiters are left", n)
		}
	})
}

// lockScene has connections a and b on one Leash, and c on another.
type lockScene struct {
	rdb      redis.UniversalClient
	key      string
	mode     string
	s, other *lockcmd.Service
	a, b, c  *locktest.Client
}

// take returns the first words of an acquire of a key in the scene's mode.
func (sc *lockScene) take(key string, options ...string) []string {
	args := []string{"LOCK.ACQUIRE", key}
	if sc.mode != "" {
		args = append(args, sc.mode)
	}
	return append(args, options...)
}

// held returns what LOCK.INFO says of the lock.
func (sc *lockScene) held(t *testing.T) map[string]string {
	t.Helper()
	return locktest.Fields(t, sc.c.Do("LOCK.INFO", sc.key))
}

// testSubscriptionsPerConnection uses many locks at once. Redisson has 5000 jobs on 5 names here,
// over one subscription connection.
func testSubscriptionsPerConnection(t *testing.T, sc *lockScene) {
	const clients, rounds = 8, 10
	var keys []string
	for range 3 {
		keys = append(keys, locktest.NewKey())
	}
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			c := locktest.Connect(t, []*lockcmd.Service{sc.s, sc.other}[i%2])
			for round := range rounds {
				key := keys[(i+round)%len(keys)]
				if reply := c.Do(sc.take(key, "BLOCK", "60000")...); !strings.HasPrefix(reply, ":") {
					t.Errorf("acquire: got %q", reply)
					return
				}
				if reply := c.Do("LOCK.RELEASE", key); reply != ":1" {
					t.Errorf("release: got %q", reply)
				}
			}
		})
	}
	all.Wait()
	for _, key := range keys {
		locktest.WantNothingLeft(t, sc.rdb, key)
	}
	locktest.Eventually(t, locktest.Soon, "no channel is listened to", func() bool {
		for _, key := range keys {
			if locktest.Subscribers(t, sc.rdb, key)+locktest.ShardSubscribers(t, sc.rdb, key) != 0 {
				return false
			}
		}
		return true
	})
}

func testSinglePubSub(t *testing.T, sc *lockScene) {
	keys := []string{locktest.NewKey(), locktest.NewKey()}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			c, key := locktest.Connect(t, sc.s), keys[i%2]
			if reply := c.Do(sc.take(key, "BLOCK", "20000")...); !strings.HasPrefix(reply, ":") {
				t.Errorf("got %q", reply)
			}
			<-time.After(20 * time.Millisecond)
			c.Do("LOCK.RELEASE", key)
		})
	}
	all.Wait()
}

func testRemainTimeToLive2(t *testing.T, sc *lockScene) {
	for range 3 {
		locktest.TokenOf(t, sc.a.Do(sc.take(sc.key, "OWNER", "me", "LEASE", "60000")...))
	}
	for range 2 {
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":0")
	}
	sc.a.Ms(60000, "LOCK.TTL", sc.key)
	if left := sc.rdb.PTTL(t.Context(), sc.key).Val(); left < 30*time.Second || left > time.Minute {
		t.Errorf("got TTL %v, want the lease", left)
	}
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	locktest.Want(t, sc.a.Do("LOCK.TTL", sc.key), ":-2")
}

func testExpire(t *testing.T, sc *lockScene) {
	began := time.Now()
	first := locktest.TokenOf(t, sc.a.Do(sc.take(sc.key, "OWNER", "me", "LEASE", "4000")...))
	token := locktest.TokenOf(t, sc.c.Do(sc.take(sc.key, "BLOCK", "50000")...))
	if took := time.Since(began); took < 4*time.Second || took > locktest.Soon || token <= first {
		t.Errorf("got token %d after %v, want one above %d when the lease is over", token, took, first)
	}
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), "-"+refusal.NotHeld)
	locktest.Want(t, sc.b.Do("LOCK.RELEASE", sc.key, "OWNER", "me"), "-"+refusal.NotHeld)
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testLockAutoExpire(t *testing.T, sc *lockScene) {
	locktest.TokenOf(t, sc.a.Do(sc.take(sc.key, "TTL", "6000")...))
	sc.a.Carrier.End(lockcmd.Expire) // nobody knows whether the client still works
	locktest.Want(t, sc.b.Do(sc.take(sc.key)...), "$-1")
	locktest.TokenOf(t, sc.c.Do(sc.take(sc.key, "BLOCK", "50000")...))
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testGetHoldCount(t *testing.T, sc *lockScene) {
	for range 2 {
		locktest.Want(t, sc.c.Do("LOCK.INFO", sc.key), "$-1")
		for _, n := range []string{"1", "2"} {
			locktest.TokenOf(t, sc.a.Do(sc.take(sc.key, "OWNER", "me")...))
			locktest.Want(t, sc.held(t)["holds"], n)
		}
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":0")
		locktest.Want(t, sc.held(t)["holds"], "1")
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	}
}

func testIsHeldAndIsLocked(t *testing.T, sc *lockScene) {
	token := strconv.FormatInt(locktest.TokenOf(t, sc.a.Do(sc.take(sc.key)...)), 10)
	if left := sc.a.Do("LOCK.TTL", sc.key); left == ":-2" {
		t.Error("its holder does not know of it")
	}
	for _, c := range []*locktest.Client{sc.b, sc.c} {
		locktest.Want(t, c.Do("LOCK.TTL", sc.key), ":-2") // c does not hold it
		locktest.Want(t, c.Do("LOCK.CHECK", sc.key, "TOKEN", token), ":1")
		locktest.Want(t, locktest.Fields(t, c.Do("LOCK.INFO", sc.key))["token"], token)
	}
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	for _, c := range []*locktest.Client{sc.a, sc.b, sc.c} {
		locktest.Want(t, c.Do("LOCK.TTL", sc.key), ":-2")
		locktest.Want(t, c.Do("LOCK.CHECK", sc.key, "TOKEN", token), ":0")
		locktest.Want(t, c.Do("LOCK.INFO", sc.key), "$-1")
	}
}

func testLockUnlockFail(t *testing.T, sc *lockScene) {
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), "-"+refusal.NotHeld)
	token := locktest.TokenOf(t, sc.a.Do(sc.take(sc.key, "OWNER", "me")...))
	for _, c := range []*locktest.Client{sc.b, sc.c} {
		locktest.Want(t, c.Do("LOCK.RELEASE", sc.key), "-"+refusal.NotHeld)
		locktest.Want(t, c.Do("LOCK.RELEASE", sc.key, "OWNER", "you"), "-"+refusal.NotHeld)
		locktest.Want(t, c.Do("LOCK.RELEASE", sc.key, "TOKEN", strconv.FormatInt(token-1, 10)), "-"+refusal.NotHeld)
	}
	locktest.Want(t, sc.held(t)["holds"], "1")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), "-"+refusal.NotHeld)
}

func testReentrancy(t *testing.T, sc *lockScene) {
	for range 2 {
		token := locktest.TokenOf(t, sc.a.Do(sc.take(sc.key, "OWNER", "me")...))
		if again := locktest.TokenOf(t, sc.a.Do(sc.take(sc.key, "OWNER", "me", "BLOCK", "0")...)); again != token {
			t.Errorf("got token %d on entering again, want %d", again, token)
		}
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":0")
		for _, c := range []*locktest.Client{sc.b, sc.c} {
			locktest.Want(t, c.Do(sc.take(sc.key)...), "$-1")
		}
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	}
}

// testConcurrencyTryLockUnLock: The watchdog misses no lock, although locks are acquired and
// released quickly.
func testConcurrencyTryLockUnLock(t *testing.T, sc *lockScene) {
	const clients, rounds = 8, 50
	var inside, done atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			c := locktest.Connect(t, []*lockcmd.Service{sc.s, sc.other}[i%2])
			for range rounds {
				if reply := c.Do(sc.take(sc.key)...); reply == "$-1" {
					continue
				} else if !strings.HasPrefix(reply, ":") {
					t.Errorf("got %q", reply)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two holders")
				}
				if left := c.Do("LOCK.TTL", sc.key); left == ":-2" || !strings.HasPrefix(left, ":") ||
					c.Carrier.Holds() != 1 {
					t.Errorf("LOCK.TTL of a held lock: %q", left)
				}
				done.Add(1)
				inside.Add(-1)
				if reply := c.Do("LOCK.RELEASE", sc.key); reply != ":1" {
					t.Errorf("release: got %q", reply)
				}
			}
			if n := c.Carrier.Holds(); n != 0 {
				t.Errorf("a connection has %d holds", n)
			}
		})
	}
	all.Wait()
	if done.Load() == 0 {
		t.Error("nobody got in")
	}
}

func testLockReentrantRenew(t *testing.T, sc *lockScene) {
	for range 2 {
		locktest.TokenOf(t, sc.a.Do(sc.take(sc.key, "OWNER", "me", "TTL", "6000")...))
	}
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":0")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	locktest.TokenOf(t, sc.a.Do(sc.take(sc.key, "OWNER", "me", "TTL", "6000")...))
	<-time.After(6500 * time.Millisecond)
	locktest.Want(t, sc.c.Do(sc.take(sc.key)...), "$-1")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
}

// testSameThreadReacquireThrows: Without OWNER, every acquire is a new owner, even on one
// connection.
func testSameThreadReacquireThrows(t *testing.T, sc *lockScene) {
	locktest.TokenOf(t, sc.a.Do(sc.take(sc.key)...))
	locktest.Want(t, sc.a.Do(sc.take(sc.key, "BLOCK", "0")...), "-"+refusal.Deadlock)
	locktest.Want(t, sc.a.Do(sc.take(sc.key)...), "$-1")
	locktest.Want(t, sc.held(t)["holds"], "1")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
}

func testCrossInstanceReentry(t *testing.T, sc *lockScene) {
	locktest.TokenOf(t, sc.a.Do(sc.take(sc.key, "OWNER", "me")...))
	for _, c := range []*locktest.Client{sc.b, sc.c} {
		locktest.Want(t, c.Do(sc.take(sc.key, "OWNER", "me")...), "-"+refusal.Elsewhere)
		locktest.Want(t, c.Do(sc.take(sc.key, "OWNER", "me", "BLOCK", "0")...), "-"+refusal.Elsewhere)
	}
	locktest.Want(t, sc.held(t)["holds"], "1")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
}

func testContendingThread(t *testing.T, sc *lockScene) {
	locktest.TokenOf(t, sc.a.Do(sc.take(sc.key)...))
	near, far := sc.b.Start(sc.take(sc.key, "BLOCK", "0")...), sc.c.Start(sc.take(sc.key, "BLOCK", "0")...)
	locktest.Eventually(t, 5*time.Second, "both wait",
		func() bool { return sc.b.Waits.Load() == 1 && sc.c.Waits.Load() == 1 })
	if len(near)+len(far) != 0 {
		t.Fatal("two holders")
	}
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	for range 2 {
		select {
		case reply := <-near:
			locktest.TokenOf(t, reply)
			locktest.Want(t, sc.b.Do("LOCK.RELEASE", sc.key), ":1")
		case reply := <-far:
			locktest.TokenOf(t, reply)
			locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
		case <-time.After(locktest.Soon):
			t.Fatal("nobody was woken")
		}
	}
}

// testHeavy acquires many locks at once, and a permit in each.
func testHeavy(t *testing.T, sc *lockScene) {
	const clients, names = 6, 40
	permits := locktest.Semaphore(t, sc.s, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			c := locktest.Connect(t, []*lockcmd.Service{sc.s, sc.other}[i%2])
			for n := range names {
				key := sc.key + ":" + strconv.Itoa(i) + ":" + strconv.Itoa(n)
				for _, step := range []struct{ begin, args string }{
					{":", "LOCK.ACQUIRE " + key + " " + sc.mode}, {"$32", "SEM.ACQUIRE " + permits},
					{":1", "SEM.RELEASE " + permits},
				} {
					if reply := c.Do(strings.Fields(step.args)...); !strings.HasPrefix(reply, step.begin) {
						t.Errorf("%s: got %q", step.args, reply)
						return
					}
				}
			}
			if n := c.Carrier.Holds(); n != names {
				t.Errorf("a connection has %d holds, want %d", n, names)
			}
			for n := range names {
				if reply := c.Do("LOCK.RELEASE", sc.key+":"+strconv.Itoa(i)+":"+strconv.Itoa(n)); reply != ":1" {
					t.Errorf("release: got %q", reply)
				}
			}
		})
	}
	all.Wait()
	sc.a.WantSemaphoreInfo(permits, clients, clients, 0)
}

// testTryAtOnce: Of many clients that try at once, one gets the lock. The others are answered at
// once.
func testTryAtOnce(t *testing.T, sc *lockScene) {
	replies := make(chan string, 10)
	for i := range cap(replies) {
		c := locktest.Connect(t, []*lockcmd.Service{sc.s, sc.other}[i%2])
		go func() { replies <- c.Do(sc.take(sc.key, "LEASE", "60000")...) }()
	}
	var token string
	for range cap(replies) {
		switch reply := locktest.Receive(t, replies, 5*time.Second); {
		case reply == "$-1":
		case token != "":
			t.Fatalf("got %q, and %s before", reply, token)
		default:
			token = strconv.FormatInt(locktest.TokenOf(t, reply), 10)
		}
	}
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key, "TOKEN", token), ":1")
}
