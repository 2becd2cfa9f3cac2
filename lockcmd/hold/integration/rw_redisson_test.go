package hold_test

import (
	"strconv"
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"

	"github.com/redis/go-redis/v9"
)

// These are scenarios of Redisson's own tests of RReadWriteLock. They have Redisson's names and
// shorter leases. Tests of Java objects are left out. So is what other tests here check:
// testInCluster and testWR (TestDowngrade), testReadWriteTTL (TestR12ReadAndWriteHoldsAreRenewed),
// testWriteRead (TestR18ReadersGoInTogether), testConcurrency… (TestReadersAndWritersUnderLoad).
func TestReadWriteScenariosOfRedisson(t *testing.T) {
	t.Parallel() // mostly waiting
	locktest.TakesLong(t)
	for name, scenario := range map[string]func(*testing.T, *readWriteScene){
		"testReadLockExpiration":                     testReadLockExpiration,
		"testReadLockExpirationRenewal":              testReadLockExpirationRenewal,
		"testName":                                   testName,
		"testWriteLockExpiration":                    testWriteLockExpiration,
		"testReadLockLeaseTimeoutDiffThreadsWRR":     testReadLockLeaseTimeoutDiffThreadsWRR,
		"testReadLockLeaseTimeoutDiffThreadsRRW":     testReadLockLeaseTimeoutDiffThreadsRRW,
		"testReadLockLeaseTimeout":                   testReadLockLeaseTimeout,
		"testWriteReadReentrancy":                    testWriteReadReentrancy,
		"testWriteLock":                              testWriteLock,
		"testMultiRead":                              testMultiRead,
		"testExpireRead":                             testExpireRead,
		"testExpireWrite":                            testExpireWrite,
		"testAutoExpire":                             testAutoExpire,
		"testHoldCount":                              testHoldCount,
		"testIsHeldByCurrentThreadAndOthers":         testIsHeld,
		"testUnlockFail":                             testUnlockFail,
		"testLockUnlockAndReentrancy":                testLockUnlock,
		"testMultiInstanceReadLockZombieCleanup":     testZombieCleanup,
		"testMultiInstanceZombieReadLockPerformance": testZombies,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
				cfg := lockcmd.Config{WatchdogTimeout: 6 * time.Second}
				sc := &readWriteScene{rdb: rdb, key: locktest.NewKey(), s: locktest.Start(t, rdb, cfg),
					other: locktest.Start(t, rdb, cfg)}
				sc.a, sc.b, sc.c = locktest.Connect(t, sc.s), locktest.Connect(t, sc.s), locktest.Connect(t, sc.other)
				scenario(t, sc)
				locktest.Eventually(t, 3*time.Second, "the lock is free",
					func() bool { return !locktest.Exists(t, rdb, sc.key) })
				for _, c := range []*locktest.Client{sc.a, sc.b, sc.c} {
					if len(c.Losses) != 0 {
						t.Errorf("lost %s", <-c.Losses)
					}
				}
			})
		})
	}
}

// readWriteScene has connections a and b on one Leash, and c on another.
type readWriteScene struct {
	rdb      redis.UniversalClient
	key      string
	s, other *lockcmd.Service
	a, b, c  *locktest.Client
}

// gets runs an ACQUIRE with BLOCK that must be granted soon, but not earlier than from after began.
func (sc *readWriteScene) gets(t *testing.T, c *locktest.Client, option string, began time.Time, from time.Duration) {
	t.Helper()
	locktest.TokenOf(t, c.Do("LOCK.ACQUIRE", sc.key, option, "BLOCK", "50000"))
	if took := time.Since(began); took < from || took > locktest.Soon {
		t.Errorf("%s got in after %v, want %v at least, and soon", option, took, from)
	}
}

func testReadLockExpiration(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.Token(sc.key, "READ", "LEASE", "6000")
	sc.b.Token(sc.key, "READ", "LEASE", "4000")
	sc.gets(t, sc.c, "WRITE", began, 5900*time.Millisecond)
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testReadLockExpirationRenewal(t *testing.T, sc *readWriteScene) {
	var readers []*locktest.Client
	for i := range 50 {
		c := locktest.Connect(t, []*lockcmd.Service{sc.s, sc.other}[i%2])
		c.Token(sc.key, "READ", "TTL", "6000")
		readers = append(readers, c)
	}
	<-time.After(7 * time.Second)
	for _, c := range readers {
		locktest.Want(t, c.Do("LOCK.RELEASE", sc.key), ":1")
	}
}

func testName(t *testing.T, sc *readWriteScene) {
	for i := range 20 {
		key := "PREFIX:" + strconv.Itoa(i) + ":{" + sc.key + "}:x"
		sc.a.Token(key, "READ", "OWNER", "me")
		locktest.Want(t, sc.c.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", key), ":1")
		sc.a.Token(key, "WRITE")
		locktest.Want(t, sc.c.Do("LOCK.ACQUIRE", key, "READ"), "$-1")
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, sc.rdb, key, sc.a, sc.c)
	}
}

// testWriteLockExpiration: Redisson adds up the leases of one writer. Leash uses the longer one
// (R12).
func testWriteLockExpiration(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.Token(sc.key, "WRITE", "OWNER", "me", "LEASE", "6000")
	sc.a.Token(sc.key, "WRITE", "OWNER", "me", "LEASE", "100")
	<-time.After(300 * time.Millisecond)
	locktest.Want(t, sc.b.Do("LOCK.ACQUIRE", sc.key, "WRITE"), "$-1")
	locktest.Want(t, sc.c.Do("LOCK.ACQUIRE", sc.key, "READ"), "$-1")
	sc.gets(t, sc.c, "READ", began, 5900*time.Millisecond)
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testReadLockLeaseTimeoutDiffThreadsWRR(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.Token(sc.key, "WRITE", "LEASE", "4000")
	second := sc.b.Start("LOCK.ACQUIRE", sc.key, "READ", "BLOCK", "0")
	sc.gets(t, sc.c, "READ", began, 3900*time.Millisecond)
	locktest.TokenOf(t, locktest.Receive(t, second, 2*time.Second))
	locktest.Want(t, sc.b.Do("LOCK.RELEASE", sc.key), ":1")
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testReadLockLeaseTimeoutDiffThreadsRRW(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.Token(sc.key, "READ", "LEASE", "4000")
	sc.b.Token(sc.key, "READ", "LEASE", "60000")
	locktest.Want(t, sc.b.Do("LOCK.RELEASE", sc.key), ":1")
	sc.gets(t, sc.c, "WRITE", began, 3900*time.Millisecond)
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testReadLockLeaseTimeout(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.Token(sc.key, "READ", "LEASE", "6000")
	sc.a.Token(sc.key, "READ", "LEASE", "6000")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	locktest.Want(t, sc.a.Do("LOCK.ACQUIRE", sc.key, "WRITE"), "$-1")
	locktest.Eventually(t, 3*time.Second, "the first is over", func() bool { return sc.a.Carrier.Holds() == 0 })
	sc.gets(t, sc.a, "WRITE", began, 5900*time.Millisecond)
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
}

func testWriteReadReentrancy(t *testing.T, sc *readWriteScene) {
	sc.a.Token(sc.key, "WRITE", "OWNER", "me")
	sc.a.Token(sc.key, "READ", "OWNER", "me")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key, "READ"), ":1")
	locktest.Want(t, sc.c.Do("LOCK.ACQUIRE", sc.key, "READ"), "$-1")
	sc.a.Token(sc.key, "READ", "OWNER", "me")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key, "WRITE"), ":1")
	locktest.Want(t, locktest.Fields(t, sc.c.Do("LOCK.INFO", sc.key))["mode"], "read")
	sc.c.Token(sc.key, "READ")
	locktest.Want(t, sc.b.Do("LOCK.ACQUIRE", sc.key, "WRITE"), "$-1")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testWriteLock(t *testing.T, sc *readWriteScene) {
	sc.a.Token(sc.key, "WRITE", "OWNER", "me")
	sc.a.Token(sc.key, "WRITE", "OWNER", "me")
	locktest.Want(t, sc.b.Do("LOCK.ACQUIRE", sc.key, "WRITE"), "$-1")
	locktest.Want(t, sc.c.Do("LOCK.ACQUIRE", sc.key, "READ"), "$-1")
	sc.a.Token(sc.key, "READ", "OWNER", "me")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key, "WRITE"), ":0")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key, "WRITE"), ":1")
	locktest.Want(t, sc.a.Do("LOCK.ACQUIRE", sc.key, "WRITE", "OWNER", "me"), "-"+refusal.OtherMode)
	locktest.Want(t, sc.c.Do("LOCK.ACQUIRE", sc.key, "WRITE", "BLOCK", "100"), "$-1")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	sc.c.Token(sc.key, "WRITE")
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testMultiRead(t *testing.T, sc *readWriteScene) {
	sc.a.Token(sc.key, "READ")
	sc.b.Token(sc.key, "READ")
	reply := sc.c.Await(sc.other, 1, sc.key, "WRITE", "BLOCK", "0")
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	locktest.Want(t, locktest.Connect(t, sc.s).Do("LOCK.ACQUIRE", sc.key, "WRITE", "BLOCK", "50"), "$-1")
	if len(reply) != 0 {
		t.Fatal("a writer got in beside a reader")
	}
	locktest.Want(t, sc.b.Do("LOCK.RELEASE", sc.key), ":1")
	locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testExpireRead(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.Token(sc.key, "READ", "OWNER", "me", "LEASE", "4000")
	sc.gets(t, sc.c, "WRITE", began, 3900*time.Millisecond)
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key, "OWNER", "me"), "-"+refusal.NotHeld)
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testExpireWrite(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.Token(sc.key, "WRITE", "OWNER", "me", "LEASE", "4000")
	sc.gets(t, sc.c, "WRITE", began, 3900*time.Millisecond)
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key, "OWNER", "me"), "-"+refusal.NotHeld)
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}

func testAutoExpire(t *testing.T, sc *readWriteScene) {
	for _, option := range []string{"READ", "WRITE"} {
		c := locktest.Connect(t, sc.s)
		c.Token(sc.key, option)
		c.Carrier.End(lockcmd.Expire) // nobody knows whether the client still works
		began := time.Now()
		sc.gets(t, sc.c, "WRITE", began, 400*time.Millisecond)
		locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
	}
}

func testHoldCount(t *testing.T, sc *readWriteScene) {
	for _, option := range []string{"READ", "WRITE"} {
		locktest.Want(t, sc.b.Do("LOCK.INFO", sc.key), "$-1")
		for _, n := range []string{"1", "2"} {
			sc.a.Token(sc.key, option, "OWNER", "me")
			locktest.Want(t, locktest.Fields(t, sc.b.Do("LOCK.INFO", sc.key))["holds"], n)
		}
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":0")
		locktest.Want(t, locktest.Fields(t, sc.b.Do("LOCK.INFO", sc.key))["holds"], "1")
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	}
}

func testIsHeld(t *testing.T, sc *readWriteScene) {
	for _, option := range []string{"READ", "WRITE"} {
		token := strconv.FormatInt(sc.a.Token(sc.key, option), 10)
		locktest.WantPrefix(t, sc.a.Do("LOCK.TTL", sc.key), ":")
		if left := sc.a.Do("LOCK.TTL", sc.key); left == ":-2" {
			t.Error("its holder does not know of it")
		}
		locktest.Want(t, sc.b.Do("LOCK.TTL", sc.key), ":-2")
		locktest.Want(t, sc.c.Do("LOCK.TTL", sc.key), ":-2")
		locktest.Want(t, sc.c.Do("LOCK.CHECK", sc.key, "TOKEN", token), ":1")
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
		locktest.Want(t, sc.a.Do("LOCK.TTL", sc.key), ":-2")
		locktest.Want(t, sc.c.Do("LOCK.CHECK", sc.key, "TOKEN", token), ":0")
	}
}

func testUnlockFail(t *testing.T, sc *readWriteScene) {
	for _, option := range []string{"READ", "WRITE"} {
		other := map[string]string{"READ": "WRITE", "WRITE": "READ"}[option]
		sc.a.Token(sc.key, option, "OWNER", "me")
		locktest.Want(t, sc.b.Do("LOCK.RELEASE", sc.key), "-"+refusal.NotHeld)
		locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key, "OWNER", "you"), "-"+refusal.NotHeld)
		locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key, "OWNER", "me", other), "-"+refusal.NotHeld)
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key, other), "-"+refusal.NotHeld)
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), "-"+refusal.NotHeld)
	}
}

func testLockUnlock(t *testing.T, sc *readWriteScene) {
	for _, option := range []string{"READ", "WRITE", "READ", "WRITE"} {
		first := sc.a.Token(sc.key, option, "OWNER", "me")
		if again := sc.a.Token(sc.key, option, "OWNER", "me"); again != first {
			t.Errorf("got token %d, want %d", again, first)
		}
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":0")
		locktest.Want(t, sc.c.Do("LOCK.ACQUIRE", sc.key, "WRITE"), "$-1")
		locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	}
}

func testZombieCleanup(t *testing.T, sc *readWriteScene) {
	dead, java := locktest.Connect(t, sc.s), locktest.NewJavaRW(t, sc.rdb, sc.key, "1")
	dead.Token(sc.key, "READ")
	dead.Carrier.End(lockcmd.Expire)
	java.In(java.Read(time.Second))
	sc.c.Token(sc.key, "READ", "OWNER", "me")
	<-time.After(7 * time.Second)
	began := time.Now()
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
	sc.gets(t, sc.b, "WRITE", began, 0)
	locktest.Want(t, sc.b.Do("LOCK.RELEASE", sc.key), ":1")
}

func testZombies(t *testing.T, sc *readWriteScene) {
	for i := range 60 {
		java := locktest.NewJavaRW(t, sc.rdb, sc.key, strconv.Itoa(i/3))
		java.In(java.Read(500 * time.Millisecond))
	}
	began := time.Now()
	sc.a.Token(sc.key, "READ")
	sc.b.Token(sc.key, "READ")
	<-time.After(700 * time.Millisecond)
	locktest.Want(t, sc.a.Do("LOCK.RELEASE", sc.key), ":1")
	locktest.Want(t, sc.b.Do("LOCK.RELEASE", sc.key), ":1")
	sc.gets(t, sc.c, "WRITE", began, 0)
	locktest.Want(t, sc.c.Do("LOCK.RELEASE", sc.key), ":1")
}
