package lockcmd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// An owner with a WRITE hold and a READ hold of one lock may have them on two connections. Each
// hold has its own lifetime.

// splitHold acquires a WRITE and a READ hold as owner "me" on one connection, and moves the hold of
// mode moved to another. The hold of mode brief has its own TTL.
func splitHold(t testing.TB, key string, from, to *conn, moved, brief string, ttl time.Duration) {
	t.Helper()
	tokens := make(map[string]int64)
	for _, mode := range []string{"WRITE", "READ"} {
		args := []string{key, mode, "OWNER", "me"}
		if mode == brief {
			args = append(args, "TTL", strconv.FormatInt(ttl.Milliseconds(), 10))
		}
		tokens[mode] = from.token(args...)
	}
	to.attach(key, "me", tokens[moved])
}

// rwRecords returns the records of a read-write lock by field.
func rwRecords(t testing.TB, rdb redis.UniversalClient, key string) map[string]script.Record {
	t.Helper()
	all := make(map[string]script.Record)
	for field, text := range inRedis(t, rdb, script.RecordsKey(key)) {
		all[field], _ = script.ParseRecord(text)
	}
	return all
}

// TestR31DeadWriterIsNotRenewedForItsReader: One hold of an owner belongs to a Leash that dies, and
// the other to one that lives. The dead Leash's hold expires by itself, in either mode.
func TestR31DeadWriterIsNotRenewedForItsReader(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		killableLeash, kill := killableLeash(t, rdb, Config{})
		s, read, written := leash(t, rdb, Config{}), newKey(), newKey() // what continues in each lock
		dead, alive, other, j := connect(t, killableLeash), connect(t, s), connect(t, s), newJavaRW(t, rdb, read, "1")
		splitHold(t, read, dead, alive, "READ", "WRITE", 6*time.Second)
		splitHold(t, written, dead, alive, "WRITE", "READ", 6*time.Second)
		kill()
		eventually(t, 4*time.Second, "java reads, too", func() bool {
			s.RenewAll(context.Background())
			return j.read(30 * time.Second)
		})
		j.unread()
		other.token(read, "READ")
		want(t, other.do("LOCK.ACQUIRE", read, "WRITE"), "$-1")
		want(t, other.do("LOCK.RELEASE", read), ":1")
		want(t, alive.do("LOCK.RELEASE", read), ":1")
		wantNothing(t, rdb, read, other)

		eventually(t, 4*time.Second, "the read hold is over", func() bool {
			return readTimeout(rdb, written, "me", 1) < 0
		})
		s.RenewAll(context.Background())
		want(t, other.do("LOCK.ACQUIRE", written, "READ"), "$-1")
		want(t, alive.do("LOCK.RELEASE", written), ":1")
		wantNothing(t, rdb, written, alive, other)
	})
}

// TestR28WriterExpiresBesideItsReadLease: A connection with a WRITE hold and a READ lease breaks.
// Other readers get in when the WRITE hold has expired.
func TestR28WriterExpiresBesideItsReadLease(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		tests := make(map[string]func(*testing.T))
		for _, again := range []bool{false, true} {
			tests[strconv.FormatBool(again)] = func(t *testing.T) {
				a, b, key := connect(t, s), connect(t, s), newKey()
				a.token(key, "WRITE", "OWNER", "me", "TTL", "6000")
				a.token(key, "READ", "OWNER", "me", "LEASE", "120000")
				if again { // acquired again beside the READ hold
					a.token(key, "WRITE", "OWNER", "me", "TTL", "6000")
				}
				a.carrier.End(Expire)
				tokenOf(t, woken(t, b.start("LOCK.ACQUIRE", key, "READ", "BLOCK", "0")))
				want(t, b.do("LOCK.ACQUIRE", key, "WRITE"), "$-1") // the lease continues
				if left := rdb.PTTL(context.Background(), key).Val(); left < 60*time.Second {
					t.Errorf("the lock lasts %v", left)
				}
				want(t, b.do("LOCK.RELEASE", key), ":1")
				want(t, b.do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
				wantNothing(t, rdb, key, a, b)
			}
		}
		runParallel(t, tests)
	})
}

// TestR12WriterAndItsReaderAreRenewedApart: The WRITE and READ holds of one owner are renewed by
// two Leashes. Nobody else gets the lock.
func TestR12WriterAndItsReaderAreRenewedApart(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		tests := make(map[string]func(*testing.T))
		for _, moved := range []string{"READ", "WRITE"} {
			tests[moved] = func(t *testing.T) {
				a, b, c, key := connect(t, s), connect(t, other), connect(t, other), newKey()
				splitHold(t, key, a, b, moved, "WRITE", 6*time.Second)
				alone := func() {
					for end := time.Now().Add(7 * time.Second); time.Now().Before(end); <-time.After(
						50 * time.Millisecond) {
						if reply := c.do("LOCK.ACQUIRE", key, "READ"); reply != "$-1" {
							t.Fatalf("somebody reads beside the writer: %q", reply)
						}
					}
					if n := len(a.losses) + len(b.losses); n != 0 || a.carrier.Holds()+b.carrier.Holds() != 2 {
						t.Fatalf("%d losses, %d and %d holds", n, a.carrier.Holds(), b.carrier.Holds())
					}
				}
				alone()
				// acquired again
				map[string]*conn{"READ": a, "WRITE": b}[moved].token(key, "WRITE", "OWNER", "me")
				alone()
				want(t, c.do("LOCK.RELEASE", key, "OWNER", "me", "WRITE", "ALL"), ":1")
				c.token(key, "READ")
				want(t, c.do("LOCK.RELEASE", key), ":1")
				want(t, c.do("LOCK.RELEASE", key, "OWNER", "me", "READ"), ":1")
				eventually(t, 3*time.Second, "all is forgotten", func() bool {
					return a.carrier.Holds()+b.carrier.Holds() == 0
				})
				wantNothing(t, rdb, key, a, b, c)
			}
		}
		runParallel(t, tests)
	})
}

// TestR13WriterBesideItsReaderIsRenewedAtMaxmemory: The renewal writes the record, which must also
// work when Redis's memory is full.
func TestR13WriterBesideItsReaderIsRenewedAtMaxmemory(t *testing.T) {
	rdb, ctx := dialServer(t, sharedServer(t).Addr), context.Background()
	s, key := leash(t, rdb, Config{}), newKey()
	a := connect(t, s)
	a.token(key, "WRITE", "OWNER", "me")
	// for this long, the lock's own TTL must be correct
	a.token(key, "READ", "OWNER", "me", "TTL", "60000")
	until := func() int {
		n, _ := strconv.Atoi(rwRecords(t, rdb, key)["me:write"].ExtValue("until"))
		return n
	}
	before := until()
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	eventually(t, time.Second, "it is renewed", func() bool {
		s.RenewAll(ctx)
		return before > 0 && until() > before
	})
	want(t, a.do("LOCK.RELEASE", key, "READ"), ":1")
	want(t, a.do("LOCK.RELEASE", key, "WRITE"), ":1")
}
