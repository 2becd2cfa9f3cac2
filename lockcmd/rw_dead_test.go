package lockcmd

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// An owner that writes and reads has two holds, which may hang on two connections. Each lasts for
// its own time.

// downgraded takes a lock for writing and for reading as owner "me" on one connection, and hangs
// the hold of one mode on another. The hold of mode brief has a TTL of its own.
func downgraded(t testing.TB, key string, from, to *conn, moved, brief string, ttl time.Duration) {
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

// rwRecords are those of a read-write lock, by field.
func rwRecords(t testing.TB, rdb redis.UniversalClient, key string) map[string]record {
	t.Helper()
	all := make(map[string]record)
	for field, text := range inRedis(t, rdb, recordsKey(key)) {
		all[field], _ = parseRecord(text)
	}
	return all
}

// TestR31NobodyRenewsADeadWriterForItsReader: and the other way round. What hung on the Leash that
// dies ends by itself.
func TestR31NobodyRenewsADeadWriterForItsReader(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		killableLeash, kill := killableLeash(t, rdb, Config{})
		s, read, written := leash(t, rdb, Config{}), newKey(), newKey() // what goes on of each
		dead, alive, other, j := connect(t, killableLeash), connect(t, s), connect(t, s), newJavaRW(t, rdb, read, "1")
		downgraded(t, read, dead, alive, "READ", "WRITE", 2*time.Second)
		downgraded(t, written, dead, alive, "WRITE", "READ", 2*time.Second)
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

		eventually(t, 4*time.Second, "the read hold is over", func() bool { return readTimeout(rdb, written, "me", 1) < 0 })
		s.RenewAll(context.Background())
		want(t, other.do("LOCK.ACQUIRE", written, "READ"), "$-1")
		want(t, alive.do("LOCK.RELEASE", written), ":1")
		wantNothing(t, rdb, written, alive, other)
	})
}

// TestR28WriterRunsOutBesideItsReadLease: a connection that breaks leaves both. Somebody else reads
// when the write hold is over.
func TestR28WriterRunsOutBesideItsReadLease(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, s)
		for _, again := range []bool{false, true} {
			a.token(key, "WRITE", "OWNER", "me", "TTL", "1000")
			a.token(key, "READ", "OWNER", "me", "LEASE", "120000")
			if again { // entered again beside it
				a.token(key, "WRITE", "OWNER", "me", "TTL", "1000")
			}
			a.carrier.End(Expire)
			tokenOf(t, woken(t, b.start("LOCK.ACQUIRE", key, "READ", "BLOCK", "0")))
			want(t, b.do("LOCK.ACQUIRE", key, "WRITE"), "$-1") // the lease goes on
			if left := rdb.PTTL(context.Background(), key).Val(); left < 60*time.Second {
				t.Errorf("the lock lasts %v", left)
			}
			want(t, b.do("LOCK.RELEASE", key), ":1")
			want(t, b.do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
			wantNothing(t, rdb, key, a, b)
			a = connect(t, s)
		}
	})
}

// TestR12WriterAndItsReaderGoOnApart: while both are renewed, each on a Leash of its own, nobody
// gets in.
func TestR12WriterAndItsReaderGoOnApart(t *testing.T) {
	t.Parallel()
	takesLong(t)
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, moved := range []string{"READ", "WRITE"} {
			onTime(t, func() error {
				a, b, c, key := connect(t, s), connect(t, other), connect(t, other), newKey()
				downgraded(t, key, a, b, moved, "WRITE", 1500*time.Millisecond)
				alone := func() error {
					for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
						if reply := c.do("LOCK.ACQUIRE", key, "READ"); reply != "$-1" {
							return fmt.Errorf("somebody reads beside the writer: %q", reply)
						}
					}
					if n := len(a.losses) + len(b.losses); n != 0 || a.carrier.Holds()+b.carrier.Holds() != 2 {
						return fmt.Errorf("%d losses, %d and %d holds", n, a.carrier.Holds(), b.carrier.Holds())
					}
					return nil
				}
				if err := alone(); err != nil {
					return err
				}
				// entered again
				map[string]*conn{"READ": a, "WRITE": b}[moved].token(key, "WRITE", "OWNER", "me")
				if err := alone(); err != nil {
					return err
				}
				want(t, c.do("LOCK.RELEASE", key, "OWNER", "me", "WRITE", "ALL"), ":1")
				c.token(key, "READ")
				want(t, c.do("LOCK.RELEASE", key), ":1")
				want(t, c.do("LOCK.RELEASE", key, "OWNER", "me", "READ"), ":1")
				eventually(t, 3*time.Second, "all is forgotten", func() bool { return a.carrier.Holds()+b.carrier.Holds() == 0 })
				wantNothing(t, rdb, key, a, b, c)
				return nil
			})
		}
	})
}

// TestR13WriterBesideItsReaderIsRenewedAtMaxmemory: that writes to its record.
func TestR13WriterBesideItsReaderIsRenewedAtMaxmemory(t *testing.T) {
	rdb, ctx := dialServer(t, sharedServer(t).Addr), context.Background()
	s, key := leash(t, rdb, Config{}), newKey()
	a := connect(t, s)
	a.token(key, "WRITE", "OWNER", "me")
	// longer: the lock's own TTL is as it must be
	a.token(key, "READ", "OWNER", "me", "TTL", "60000")
	until := func() int {
		n, _ := strconv.Atoi(rwRecords(t, rdb, key)["me:write"].extValue("until"))
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
