package hold_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

// An owner with a WRITE hold and a READ hold of one lock may have them on two connections. Each
// hold has its own lifetime.

// splitHold acquires a WRITE and a READ hold as owner "me" on one connection, and moves the hold of
// mode moved to another. The hold of mode brief has its own TTL.
func splitHold(t testing.TB, key string, from, to *locktest.Client, moved, brief string, ttl time.Duration) {
	t.Helper()
	tokens := make(map[string]int64)
	for _, mode := range []string{"WRITE", "READ"} {
		args := []string{key, mode, "OWNER", "me"}
		if mode == brief {
			args = append(args, "TTL", strconv.FormatInt(ttl.Milliseconds(), 10))
		}
		tokens[mode] = from.Token(args...)
	}
	to.Attach(key, "me", tokens[moved])
}

// rwRecords returns the records of a read-write lock by field.
func rwRecords(t testing.TB, rdb redis.UniversalClient, key string) map[string]script.Record {
	t.Helper()
	all := make(map[string]script.Record)
	for field, text := range locktest.InRedis(t, rdb, script.RecordsKey(key)) {
		all[field], _ = script.ParseRecord(text)
	}
	return all
}

// TestR31DeadWriterIsNotRenewedForItsReader: One hold of an owner belongs to a Leash that dies, and
// the other to one that lives. The dead Leash's hold expires by itself, in either mode.
func TestR31DeadWriterIsNotRenewedForItsReader(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		killableLeash, kill := locktest.StartKillable(t, rdb, lockcmd.Config{})
		s, read, written := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(),
			locktest.NewKey() // what continues in each lock
		dead, alive, other, j := locktest.Connect(t, killableLeash), locktest.Connect(t, s), locktest.Connect(t, s),
			locktest.NewJavaRW(t, rdb, read, "1")
		splitHold(t, read, dead, alive, "READ", "WRITE", 6*time.Second)
		splitHold(t, written, dead, alive, "WRITE", "READ", 6*time.Second)
		kill()
		locktest.Eventually(t, 4*time.Second, "java reads, too", func() bool {
			s.RenewAll(context.Background())
			return j.Read(30 * time.Second)
		})
		j.Unread()
		other.Token(read, "READ")
		locktest.Want(t, other.Do("LOCK.ACQUIRE", read, "WRITE"), "$-1")
		locktest.Want(t, other.Do("LOCK.RELEASE", read), ":1")
		locktest.Want(t, alive.Do("LOCK.RELEASE", read), ":1")
		locktest.WantNothing(t, rdb, read, other)

		locktest.Eventually(t, 4*time.Second, "the read hold is over", func() bool {
			return locktest.ReadTimeout(rdb, written, "me", 1) < 0
		})
		s.RenewAll(context.Background())
		locktest.Want(t, other.Do("LOCK.ACQUIRE", written, "READ"), "$-1")
		locktest.Want(t, alive.Do("LOCK.RELEASE", written), ":1")
		locktest.WantNothing(t, rdb, written, alive, other)
	})
}

// TestR28WriterExpiresBesideItsReadLease: A connection with a WRITE hold and a READ lease breaks.
// Other readers get in when the WRITE hold has expired.
func TestR28WriterExpiresBesideItsReadLease(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		tests := make(map[string]func(*testing.T))
		for _, again := range []bool{false, true} {
			tests[strconv.FormatBool(again)] = func(t *testing.T) {
				a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
				a.Token(key, "WRITE", "OWNER", "me", "TTL", "6000")
				a.Token(key, "READ", "OWNER", "me", "LEASE", "120000")
				if again { // acquired again beside the READ hold
					a.Token(key, "WRITE", "OWNER", "me", "TTL", "6000")
				}
				a.Carrier.End(lockcmd.Expire)
				locktest.TokenOf(t, locktest.Woken(t, b.Start("LOCK.ACQUIRE", key, "READ", "BLOCK", "0")))
				locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1") // the lease continues
				if left := rdb.PTTL(context.Background(), key).Val(); left < 60*time.Second {
					t.Errorf("the lock lasts %v", left)
				}
				locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
				locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
				locktest.WantNothing(t, rdb, key, a, b)
			}
		}
		locktest.RunParallel(t, tests)
	})
}

// TestR12WriterAndItsReaderAreRenewedApart: The WRITE and READ holds of one owner are renewed by
// two Leashes. Nobody else gets the lock.
func TestR12WriterAndItsReaderAreRenewedApart(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		tests := make(map[string]func(*testing.T))
		for _, moved := range []string{"READ", "WRITE"} {
			tests[moved] = func(t *testing.T) {
				a, b, c, key := locktest.Connect(t, s), locktest.Connect(t, other), locktest.Connect(t, other),
					locktest.NewKey()
				splitHold(t, key, a, b, moved, "WRITE", 6*time.Second)
				alone := func() {
					for end := time.Now().Add(7 * time.Second); time.Now().Before(end); <-time.After(
						50 * time.Millisecond) {
						if reply := c.Do("LOCK.ACQUIRE", key, "READ"); reply != "$-1" {
							t.Fatalf("somebody reads beside the writer: %q", reply)
						}
					}
					if n := len(a.Losses) + len(b.Losses); n != 0 || a.Carrier.Holds()+b.Carrier.Holds() != 2 {
						t.Fatalf("%d losses, %d and %d holds", n, a.Carrier.Holds(), b.Carrier.Holds())
					}
				}
				alone()
				// acquired again
				map[string]*locktest.Client{"READ": a, "WRITE": b}[moved].Token(key, "WRITE", "OWNER", "me")
				alone()
				locktest.Want(t, c.Do("LOCK.RELEASE", key, "OWNER", "me", "WRITE", "ALL"), ":1")
				c.Token(key, "READ")
				locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
				locktest.Want(t, c.Do("LOCK.RELEASE", key, "OWNER", "me", "READ"), ":1")
				locktest.Eventually(t, 3*time.Second, "all is forgotten", func() bool {
					return a.Carrier.Holds()+b.Carrier.Holds() == 0
				})
				locktest.WantNothing(t, rdb, key, a, b, c)
			}
		}
		locktest.RunParallel(t, tests)
	})
}

// TestR13WriterBesideItsReaderIsRenewedAtMaxmemory: The renewal writes the record, which must also
// work when Redis's memory is full.
func TestR13WriterBesideItsReaderIsRenewedAtMaxmemory(t *testing.T) {
	rdb, ctx := locktest.DialServer(t, redistest.SharedServer(t).Addr), context.Background()
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a := locktest.Connect(t, s)
	a.Token(key, "WRITE", "OWNER", "me")
	// for this long, the lock's own TTL must be correct
	a.Token(key, "READ", "OWNER", "me", "TTL", "60000")
	until := func() int {
		n, _ := strconv.Atoi(rwRecords(t, rdb, key)["me:write"].ExtValue("until"))
		return n
	}
	before := until()
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	locktest.Eventually(t, time.Second, "it is renewed", func() bool {
		s.RenewAll(ctx)
		return before > 0 && until() > before
	})
	locktest.Want(t, a.Do("LOCK.RELEASE", key, "READ"), ":1")
	locktest.Want(t, a.Do("LOCK.RELEASE", key, "WRITE"), ":1")
}
