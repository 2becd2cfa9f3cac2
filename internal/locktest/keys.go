package locktest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd"
	"leash/lockcmd/script"
)

// Count is an owner's count in the hash of a lock.
func Count(rdb redis.UniversalClient, key, owner string) string {
	return rdb.HGet(context.Background(), key, owner).Val()
}

// Get returns the value of a key.
func Get(t testing.TB, s *lockcmd.Service, key string) string {
	return RedisOf(s).Get(t.Context(), key).Val()
}

// WantNothingLeft checks that nothing of a lock is left in Redis but its token counter.
func WantNothingLeft(t testing.TB, rdb redis.UniversalClient, key string) {
	t.Helper()
	for _, k := range append(script.QueueKeys(key), key) {
		Eventually(t, 2*time.Second, k+" is gone", func() bool { return !Exists(t, rdb, k) })
	}
}

// InRedis returns the fields of a read-write lock in Redis.
func InRedis(t testing.TB, rdb redis.UniversalClient, key string) map[string]string {
	t.Helper()
	fields, err := rdb.HGetAll(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// ReadTimeout returns how long the i-th count of an owner's READ hold lasts.
func ReadTimeout(rdb redis.UniversalClient, key, owner string, i int) time.Duration {
	return rdb.PTTL(context.Background(), script.SuffixName(key, owner+":rwlock_timeout:"+strconv.Itoa(i))).Val()
}

// WantNothing checks that nothing is left of a read-write lock and its holds.
func WantNothing(t testing.TB, rdb redis.UniversalClient, key string, conns ...*Client) {
	t.Helper()
	if n := rdb.Exists(context.Background(), key, script.RecordsKey(key)).Val(); n != 0 {
		t.Errorf("%d keys are left: %v", n, InRedis(t, rdb, key))
	}
	for _, c := range conns {
		if c.Carrier.Holds() != 0 {
			t.Errorf("a connection has %d holds", c.Carrier.Holds())
		}
		if len(c.Losses) != 0 {
			t.Errorf("lost %s", <-c.Losses)
		}
	}
}

// Fields reads the reply of LOCK.INFO as a map. Nil is read as "".
func Fields(t testing.TB, reply string) map[string]string {
	t.Helper()
	words := strings.Split(reply, "\r\n")
	if words[0] != "*22" {
		t.Fatalf("got %q, want a map", reply)
	}
	var values []string
	for i := 1; i < len(words); i++ {
		switch {
		case words[i] == "$-1":
			values = append(values, "")
		case words[i][0] == ':':
			values = append(values, words[i][1:])
		default:
			i++
			values = append(values, words[i])
		}
	}
	out := make(map[string]string)
	for i := 0; i+1 < len(values); i += 2 {
		out[values[i]] = values[i+1]
	}
	return out
}

// FieldOf is the field of an owner's hold.
func FieldOf(m *script.Mode, owner string) string {
	if m == script.Write {
		return owner + ":write"
	}
	return owner
}

// StoredKey is what Redis has of a key.
type StoredKey struct {
	Value string        // as DUMP says
	Ends  time.Duration // since 1970; negative without a TTL
}

// StoredKeys are the keys that have the name in them.
func StoredKeys(t *testing.T, rdb *redis.Client, name string) map[string]StoredKey {
	t.Helper()
	names, err := rdb.Keys(t.Context(), "*"+name+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]StoredKey)
	for _, key := range names {
		all[key] = StoredKey{rdb.Dump(t.Context(), key).Val(), rdb.PExpireTime(t.Context(), key).Val()}
	}
	return all
}

func (k StoredKey) String() string { return fmt.Sprintf("%q until %v", k.Value, k.Ends) }

// Same reports whether nothing was written. A TTL that was set to what was left may be rounded.
func (k StoredKey) Same(other StoredKey) bool {
	return k.Value == other.Value && (k.Ends-other.Ends).Abs() < 5*time.Second && (k.Ends < 0) == (other.Ends < 0)
}
