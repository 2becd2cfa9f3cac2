package locktest

import (
	"context"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// PermitsOf is the queue of a semaphore's waiters.
func PermitsOf(key string) wait.QueueID { return wait.QueueOf(LockOf(key), script.Permit) }

// PermitReply is the reply of SEM.ACQUIRE for one permit.
var PermitReply = regexp.MustCompile(`^\$32\r\n([0-9a-f]{32})$`)

// PermitOf reads a reply that must be one permit.
func PermitOf(t testing.TB, reply string) string {
	t.Helper()
	m := PermitReply.FindStringSubmatch(reply)
	if m == nil {
		t.Fatalf("got reply %q, want a permit", reply)
	}
	return m[1]
}

// Semaphore creates a semaphore with n permits.
func Semaphore(t testing.TB, s *lockcmd.Service, n int) (key string) {
	t.Helper()
	key = NewKey()
	Want(t, Connect(t, s).Do("SEM.INIT", key, strconv.Itoa(n)), ":1")
	return key
}

// Records is how many records of permits a semaphore has.
func Records(rdb redis.UniversalClient, key string) int64 {
	return rdb.HLen(context.Background(), script.RecordsKey(key)).Val()
}
