package lockcmd

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// databases returns clients for databases of the shared server, as package upstream does.
func databases(t testing.TB) func(db int) redis.UniversalClient {
	var mu sync.Mutex
	clients := make(map[int]redis.UniversalClient)
	addr := sharedServer(t).Addr
	return func(db int) redis.UniversalClient {
		mu.Lock()
		defer mu.Unlock()
		if clients[db] == nil {
			opts := *dialServer(t, addr).Options()
			opts.DB = db
			c := redis.NewClient(&opts)
			t.Cleanup(func() { c.Close() })
			clients[db] = c
		}
		return clients[db]
	}
}

func connectTo(t testing.TB, s *Service, db int) *conn {
	c := connect(t, s)
	c.carrier.Select(db)
	return c
}

// TestR8LocksLiveInTheirDatabase: The same key in two databases is two locks, for every command.
func TestR8LocksLiveInTheirDatabase(t *testing.T) {
	t.Parallel()
	in := databases(t)
	s := leash(t, in(0), Config{Database: in, WatchdogTimeout: 6 * time.Second})
	other := leash(t, in(0), Config{Database: in, WatchdogTimeout: 6 * time.Second})
	key := newKey()
	a, b := connectTo(t, s, 0), connectTo(t, s, 3)
	a.token(key)
	token := b.do("LOCK.ACQUIRE", key, "OWNER", "b")[1:]
	if !exists(t, in(0), key) || !exists(t, in(3), key) {
		t.Fatal("a lock is not in its database")
	}
	want(t, connectTo(t, s, 1).do("LOCK.RELEASE", key, "TOKEN", token), "-"+refusal.NotHeld)
	want(t, connectTo(t, s, 0).do("LOCK.RELEASE", key, "TOKEN", token), "-"+refusal.NotHeld)
	want(t, connectTo(t, s, 5).do("LOCK.INFO", key), "$-1")

	// A release in one database does not serve a waiter in the other.
	waiting := connectTo(t, s, 3)
	reply := waiting.start("LOCK.ACQUIRE", key, "BLOCK", "0")
	far := connectTo(t, other, 3).start("LOCK.ACQUIRE", key, "BLOCK", "100")
	eventually(t, 5*time.Second, "it waits", func() bool { return s.Waiting(script.Lock{DB: 3, Key: key}) == 1 })
	want(t, a.do("LOCK.RELEASE", key), ":1")
	a.token(key)
	want(t, receive(t, far, 5*time.Second), "$-1")
	if len(reply) != 0 {
		t.Fatalf("got %q while the lock was held", <-reply)
	}

	// Both holds are renewed for longer than their TTL.
	for end := time.Now().Add(7 * time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if !exists(t, in(0), key) || !exists(t, in(3), key) {
			t.Fatal("a lock has run out")
		}
	}

	// A release through another Leash finds the hold and sends an event to this Leash.
	want(t, connectTo(t, other, 3).do("LOCK.RELEASE", key, "TOKEN", token), ":1")
	tokenOf(t, receive(t, reply, 5*time.Second))
	eventually(t, 5*time.Second, "the release is known here", func() bool { return b.carrier.Holds() == 0 })
	if len(b.losses) != 0 {
		t.Fatalf("lost %s", <-b.losses)
	}

	// A loss affects only the hold in its own database.
	in(3).Del(context.Background(), key)
	want(t, receive(t, waiting.losses, 5*time.Second), key+" gone")
	want(t, a.do("LOCK.RELEASE", key), ":1")
	if len(a.losses) != 0 {
		t.Fatalf("lost %s", <-a.losses)
	}
}

// TestR8CarrierThatChangesDatabase: After SELECT, holds stay in the database where they were
// acquired.
func TestR8CarrierThatChangesDatabase(t *testing.T) {
	t.Parallel()
	in := databases(t)
	s := leash(t, in(0), Config{Database: in})
	key := newKey()
	c := connect(t, s)
	c.token(key)
	c.carrier.Select(2)
	want(t, c.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
	c.token(key, "BLOCK", "0") // no deadlock, because it is another lock
	want(t, c.do("LOCK.RELEASE", key), ":1")
	c.carrier.Select(0)
	if left := tokenOf(t, c.do("LOCK.TTL", key)); left < 1 {
		t.Errorf("LOCK.TTL: %d", left)
	}
	c.carrier.Select(2)
	c.token(key)
	c.carrier.End(Release)
	if exists(t, in(0), key) || exists(t, in(2), key) {
		t.Error("a hold is left behind")
	}
}
