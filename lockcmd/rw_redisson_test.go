package lockcmd

import (
	"strconv"
	"testing"
	"time"

	"leash/lockcmd/refusal"

	"github.com/redis/go-redis/v9"
)

// These are scenarios of Redisson's own tests of RReadWriteLock. They have Redisson's names and
// shorter leases. Tests of Java objects are left out. So is what other tests here check:
// testInCluster and testWR (TestDowngrade), testReadWriteTTL (TestR12ReadAndWriteHoldsAreRenewed),
// testWriteRead (TestR18ReadersGoInTogether), testConcurrency… (TestReadersAndWritersUnderLoad).
func TestReadWriteScenariosOfRedisson(t *testing.T) {
	t.Parallel() // mostly waiting
	takesLong(t)
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
			both(t, func(t *testing.T, rdb redis.UniversalClient) {
				cfg := Config{WatchdogTimeout: 6 * time.Second}
				sc := &readWriteScene{rdb: rdb, key: newKey(), s: leash(t, rdb, cfg), other: leash(t, rdb, cfg)}
				sc.a, sc.b, sc.c = connect(t, sc.s), connect(t, sc.s), connect(t, sc.other)
				scenario(t, sc)
				eventually(t, 3*time.Second, "the lock is free", func() bool { return !exists(t, rdb, sc.key) })
				for _, c := range []*conn{sc.a, sc.b, sc.c} {
					if len(c.losses) != 0 {
						t.Errorf("lost %s", <-c.losses)
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
	s, other *Service
	a, b, c  *conn
}

// gets runs an ACQUIRE with BLOCK that must be granted soon, but not earlier than from after began.
func (sc *readWriteScene) gets(t *testing.T, c *conn, option string, began time.Time, from time.Duration) {
	t.Helper()
	tokenOf(t, c.do("LOCK.ACQUIRE", sc.key, option, "BLOCK", "50000"))
	if took := time.Since(began); took < from || took > soon {
		t.Errorf("%s got in after %v, want %v at least, and soon", option, took, from)
	}
}

func testReadLockExpiration(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.token(sc.key, "READ", "LEASE", "6000")
	sc.b.token(sc.key, "READ", "LEASE", "4000")
	sc.gets(t, sc.c, "WRITE", began, 5900*time.Millisecond)
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
}

func testReadLockExpirationRenewal(t *testing.T, sc *readWriteScene) {
	var readers []*conn
	for i := range 50 {
		c := connect(t, []*Service{sc.s, sc.other}[i%2])
		c.token(sc.key, "READ", "TTL", "6000")
		readers = append(readers, c)
	}
	<-time.After(7 * time.Second)
	for _, c := range readers {
		want(t, c.do("LOCK.RELEASE", sc.key), ":1")
	}
}

func testName(t *testing.T, sc *readWriteScene) {
	for i := range 20 {
		key := "PREFIX:" + strconv.Itoa(i) + ":{" + sc.key + "}:x"
		sc.a.token(key, "READ", "OWNER", "me")
		want(t, sc.c.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		want(t, sc.a.do("LOCK.RELEASE", key), ":1")
		sc.a.token(key, "WRITE")
		want(t, sc.c.do("LOCK.ACQUIRE", key, "READ"), "$-1")
		want(t, sc.a.do("LOCK.RELEASE", key), ":1")
		wantNothing(t, sc.rdb, key, sc.a, sc.c)
	}
}

// testWriteLockExpiration: Redisson adds up the leases of one writer. Leash uses the longer one
// (R12).
func testWriteLockExpiration(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.token(sc.key, "WRITE", "OWNER", "me", "LEASE", "6000")
	sc.a.token(sc.key, "WRITE", "OWNER", "me", "LEASE", "100")
	<-time.After(300 * time.Millisecond)
	want(t, sc.b.do("LOCK.ACQUIRE", sc.key, "WRITE"), "$-1")
	want(t, sc.c.do("LOCK.ACQUIRE", sc.key, "READ"), "$-1")
	sc.gets(t, sc.c, "READ", began, 5900*time.Millisecond)
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
}

func testReadLockLeaseTimeoutDiffThreadsWRR(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.token(sc.key, "WRITE", "LEASE", "4000")
	second := sc.b.start("LOCK.ACQUIRE", sc.key, "READ", "BLOCK", "0")
	sc.gets(t, sc.c, "READ", began, 3900*time.Millisecond)
	tokenOf(t, receive(t, second, 2*time.Second))
	want(t, sc.b.do("LOCK.RELEASE", sc.key), ":1")
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
}

func testReadLockLeaseTimeoutDiffThreadsRRW(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.token(sc.key, "READ", "LEASE", "4000")
	sc.b.token(sc.key, "READ", "LEASE", "60000")
	want(t, sc.b.do("LOCK.RELEASE", sc.key), ":1")
	sc.gets(t, sc.c, "WRITE", began, 3900*time.Millisecond)
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
}

func testReadLockLeaseTimeout(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.token(sc.key, "READ", "LEASE", "6000")
	sc.a.token(sc.key, "READ", "LEASE", "6000")
	want(t, sc.a.do("LOCK.RELEASE", sc.key), ":1")
	want(t, sc.a.do("LOCK.ACQUIRE", sc.key, "WRITE"), "$-1")
	eventually(t, 3*time.Second, "the first is over", func() bool { return sc.a.carrier.Holds() == 0 })
	sc.gets(t, sc.a, "WRITE", began, 5900*time.Millisecond)
	want(t, sc.a.do("LOCK.RELEASE", sc.key), ":1")
}

func testWriteReadReentrancy(t *testing.T, sc *readWriteScene) {
	sc.a.token(sc.key, "WRITE", "OWNER", "me")
	sc.a.token(sc.key, "READ", "OWNER", "me")
	want(t, sc.a.do("LOCK.RELEASE", sc.key, "READ"), ":1")
	want(t, sc.c.do("LOCK.ACQUIRE", sc.key, "READ"), "$-1")
	sc.a.token(sc.key, "READ", "OWNER", "me")
	want(t, sc.a.do("LOCK.RELEASE", sc.key, "WRITE"), ":1")
	want(t, fields(t, sc.c.do("LOCK.INFO", sc.key))["mode"], "read")
	sc.c.token(sc.key, "READ")
	want(t, sc.b.do("LOCK.ACQUIRE", sc.key, "WRITE"), "$-1")
	want(t, sc.a.do("LOCK.RELEASE", sc.key), ":1")
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
}

func testWriteLock(t *testing.T, sc *readWriteScene) {
	sc.a.token(sc.key, "WRITE", "OWNER", "me")
	sc.a.token(sc.key, "WRITE", "OWNER", "me")
	want(t, sc.b.do("LOCK.ACQUIRE", sc.key, "WRITE"), "$-1")
	want(t, sc.c.do("LOCK.ACQUIRE", sc.key, "READ"), "$-1")
	sc.a.token(sc.key, "READ", "OWNER", "me")
	want(t, sc.a.do("LOCK.RELEASE", sc.key, "WRITE"), ":0")
	want(t, sc.a.do("LOCK.RELEASE", sc.key, "WRITE"), ":1")
	want(t, sc.a.do("LOCK.ACQUIRE", sc.key, "WRITE", "OWNER", "me"), "-"+refusal.OtherMode)
	want(t, sc.c.do("LOCK.ACQUIRE", sc.key, "WRITE", "BLOCK", "100"), "$-1")
	want(t, sc.a.do("LOCK.RELEASE", sc.key), ":1")
	sc.c.token(sc.key, "WRITE")
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
}

func testMultiRead(t *testing.T, sc *readWriteScene) {
	sc.a.token(sc.key, "READ")
	sc.b.token(sc.key, "READ")
	reply := sc.c.await(sc.other, 1, sc.key, "WRITE", "BLOCK", "0")
	want(t, sc.a.do("LOCK.RELEASE", sc.key), ":1")
	want(t, connect(t, sc.s).do("LOCK.ACQUIRE", sc.key, "WRITE", "BLOCK", "50"), "$-1")
	if len(reply) != 0 {
		t.Fatal("a writer got in beside a reader")
	}
	want(t, sc.b.do("LOCK.RELEASE", sc.key), ":1")
	tokenOf(t, receive(t, reply, 3*time.Second))
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
}

func testExpireRead(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.token(sc.key, "READ", "OWNER", "me", "LEASE", "4000")
	sc.gets(t, sc.c, "WRITE", began, 3900*time.Millisecond)
	want(t, sc.a.do("LOCK.RELEASE", sc.key, "OWNER", "me"), "-"+refusal.NotHeld)
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
}

func testExpireWrite(t *testing.T, sc *readWriteScene) {
	began := time.Now()
	sc.a.token(sc.key, "WRITE", "OWNER", "me", "LEASE", "4000")
	sc.gets(t, sc.c, "WRITE", began, 3900*time.Millisecond)
	want(t, sc.a.do("LOCK.RELEASE", sc.key, "OWNER", "me"), "-"+refusal.NotHeld)
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
}

func testAutoExpire(t *testing.T, sc *readWriteScene) {
	for _, option := range []string{"READ", "WRITE"} {
		c := connect(t, sc.s)
		c.token(sc.key, option)
		c.carrier.End(Expire) // nobody knows whether the client still works
		began := time.Now()
		sc.gets(t, sc.c, "WRITE", began, 400*time.Millisecond)
		want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
	}
}

func testHoldCount(t *testing.T, sc *readWriteScene) {
	for _, option := range []string{"READ", "WRITE"} {
		want(t, sc.b.do("LOCK.INFO", sc.key), "$-1")
		for _, n := range []string{"1", "2"} {
			sc.a.token(sc.key, option, "OWNER", "me")
			want(t, fields(t, sc.b.do("LOCK.INFO", sc.key))["holds"], n)
		}
		want(t, sc.a.do("LOCK.RELEASE", sc.key), ":0")
		want(t, fields(t, sc.b.do("LOCK.INFO", sc.key))["holds"], "1")
		want(t, sc.a.do("LOCK.RELEASE", sc.key), ":1")
	}
}

func testIsHeld(t *testing.T, sc *readWriteScene) {
	for _, option := range []string{"READ", "WRITE"} {
		token := strconv.FormatInt(sc.a.token(sc.key, option), 10)
		wantPrefix(t, sc.a.do("LOCK.TTL", sc.key), ":")
		if left := sc.a.do("LOCK.TTL", sc.key); left == ":-2" {
			t.Error("its holder does not know of it")
		}
		want(t, sc.b.do("LOCK.TTL", sc.key), ":-2")
		want(t, sc.c.do("LOCK.TTL", sc.key), ":-2")
		want(t, sc.c.do("LOCK.CHECK", sc.key, "TOKEN", token), ":1")
		want(t, sc.a.do("LOCK.RELEASE", sc.key), ":1")
		want(t, sc.a.do("LOCK.TTL", sc.key), ":-2")
		want(t, sc.c.do("LOCK.CHECK", sc.key, "TOKEN", token), ":0")
	}
}

func testUnlockFail(t *testing.T, sc *readWriteScene) {
	for _, option := range []string{"READ", "WRITE"} {
		other := map[string]string{"READ": "WRITE", "WRITE": "READ"}[option]
		sc.a.token(sc.key, option, "OWNER", "me")
		want(t, sc.b.do("LOCK.RELEASE", sc.key), "-"+refusal.NotHeld)
		want(t, sc.c.do("LOCK.RELEASE", sc.key, "OWNER", "you"), "-"+refusal.NotHeld)
		want(t, sc.c.do("LOCK.RELEASE", sc.key, "OWNER", "me", other), "-"+refusal.NotHeld)
		want(t, sc.a.do("LOCK.RELEASE", sc.key, other), "-"+refusal.NotHeld)
		want(t, sc.a.do("LOCK.RELEASE", sc.key), ":1")
		want(t, sc.a.do("LOCK.RELEASE", sc.key), "-"+refusal.NotHeld)
	}
}

func testLockUnlock(t *testing.T, sc *readWriteScene) {
	for _, option := range []string{"READ", "WRITE", "READ", "WRITE"} {
		first := sc.a.token(sc.key, option, "OWNER", "me")
		if again := sc.a.token(sc.key, option, "OWNER", "me"); again != first {
			t.Errorf("got token %d, want %d", again, first)
		}
		want(t, sc.a.do("LOCK.RELEASE", sc.key), ":0")
		want(t, sc.c.do("LOCK.ACQUIRE", sc.key, "WRITE"), "$-1")
		want(t, sc.a.do("LOCK.RELEASE", sc.key), ":1")
	}
}

func testZombieCleanup(t *testing.T, sc *readWriteScene) {
	dead, java := connect(t, sc.s), newJavaRW(t, sc.rdb, sc.key, "1")
	dead.token(sc.key, "READ")
	dead.carrier.End(Expire)
	java.in(java.read(time.Second))
	sc.c.token(sc.key, "READ", "OWNER", "me")
	<-time.After(7 * time.Second)
	began := time.Now()
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
	sc.gets(t, sc.b, "WRITE", began, 0)
	want(t, sc.b.do("LOCK.RELEASE", sc.key), ":1")
}

func testZombies(t *testing.T, sc *readWriteScene) {
	for i := range 60 {
		java := newJavaRW(t, sc.rdb, sc.key, strconv.Itoa(i/3))
		java.in(java.read(500 * time.Millisecond))
	}
	began := time.Now()
	sc.a.token(sc.key, "READ")
	sc.b.token(sc.key, "READ")
	<-time.After(700 * time.Millisecond)
	want(t, sc.a.do("LOCK.RELEASE", sc.key), ":1")
	want(t, sc.b.do("LOCK.RELEASE", sc.key), ":1")
	sc.gets(t, sc.c, "WRITE", began, 0)
	want(t, sc.c.do("LOCK.RELEASE", sc.key), ":1")
}
