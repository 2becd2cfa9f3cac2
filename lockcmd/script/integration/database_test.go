package script_test

import (
	"context"
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// TestR8LocksLiveInTheirDatabase: The same key in two databases is two locks, for every command.
func TestR8LocksLiveInTheirDatabase(t *testing.T) {
	t.Parallel()
	in := locktest.Databases(t)
	s := locktest.Start(t, in(0), lockcmd.Config{WatchdogTimeout: 6 * time.Second})
	other := locktest.Start(t, in(0), lockcmd.Config{WatchdogTimeout: 6 * time.Second})
	key := locktest.NewKey()
	a, b := locktest.ConnectTo(t, s, 0), locktest.ConnectTo(t, s, 3)
	a.Token(key)
	token := b.Do("LOCK.ACQUIRE", key, "OWNER", "b")[1:]
	if !locktest.Exists(t, in(0), key) || !locktest.Exists(t, in(3), key) {
		t.Fatal("a lock is not in its database")
	}
	locktest.Want(t, locktest.ConnectTo(t, s, 1).Do("LOCK.RELEASE", key, "TOKEN", token), "-"+refusal.NotHeld)
	locktest.Want(t, locktest.ConnectTo(t, s, 0).Do("LOCK.RELEASE", key, "TOKEN", token), "-"+refusal.NotHeld)
	locktest.Want(t, locktest.ConnectTo(t, s, 5).Do("LOCK.INFO", key), "$-1")

	// A release in one database does not serve a waiter in the other.
	waiting := locktest.ConnectTo(t, s, 3)
	reply := waiting.Start("LOCK.ACQUIRE", key, "BLOCK", "0")
	far := locktest.ConnectTo(t, other, 3).Start("LOCK.ACQUIRE", key, "BLOCK", "100")
	locktest.Eventually(t, 5*time.Second, "it waits",
		func() bool { return s.Waiting(script.Lock{DB: 3, Key: key}) == 1 })
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	a.Token(key)
	locktest.Want(t, locktest.Receive(t, far, 5*time.Second), "$-1")
	if len(reply) != 0 {
		t.Fatalf("got %q while the lock was held", <-reply)
	}

	// Both holds are renewed for longer than their TTL.
	for end := time.Now().Add(7 * time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if !locktest.Exists(t, in(0), key) || !locktest.Exists(t, in(3), key) {
			t.Fatal("a lock has run out")
		}
	}

	// A release through another Leash finds the hold and sends an event to this Leash.
	locktest.Want(t, locktest.ConnectTo(t, other, 3).Do("LOCK.RELEASE", key, "TOKEN", token), ":1")
	locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
	locktest.Eventually(t, 5*time.Second, "the release is known here", func() bool { return b.Carrier.Holds() == 0 })
	if len(b.Losses) != 0 {
		t.Fatalf("lost %s", <-b.Losses)
	}

	// A loss affects only the hold in its own database.
	in(3).Del(context.Background(), key)
	locktest.Want(t, locktest.Receive(t, waiting.Losses, 5*time.Second), key+" gone")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	if len(a.Losses) != 0 {
		t.Fatalf("lost %s", <-a.Losses)
	}
}

// TestR8CarrierThatChangesDatabase: After SELECT, holds stay in the database where they were
// acquired.
func TestR8CarrierThatChangesDatabase(t *testing.T) {
	t.Parallel()
	in := locktest.Databases(t)
	s := locktest.Start(t, in(0), lockcmd.Config{})
	key := locktest.NewKey()
	c := locktest.Connect(t, s)
	c.Token(key)
	c.Carrier.Select(2)
	locktest.Want(t, c.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
	c.Token(key, "BLOCK", "0") // no deadlock, because it is another lock
	locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
	c.Carrier.Select(0)
	if left := locktest.TokenOf(t, c.Do("LOCK.TTL", key)); left < 1 {
		t.Errorf("LOCK.TTL: %d", left)
	}
	c.Carrier.Select(2)
	c.Token(key)
	c.Carrier.End(lockcmd.Release)
	if locktest.Exists(t, in(0), key) || locktest.Exists(t, in(2), key) {
		t.Error("a hold is left behind")
	}
}
