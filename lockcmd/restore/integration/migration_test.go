package restore_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/renewal"
)

func TestR14SlotInMigration(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...)
	s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
	tag := "{" + locktest.NewKey() + "}"
	key := func(n int) string { return fmt.Sprint(tag, n) }
	a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other)
	a.Token(key(0))
	locktest.Want(t, a.Do("LOCK.RELEASE", key(0)), ":1") // leaves a counter, so one of two keys exists
	var tokens []string
	for n := 1; n <= 10; n++ {
		tokens = append(tokens, strconv.FormatInt(a.Token(key(n), "OWNER", "me"), 10))
	}
	waiting := b.Await(s, 1, key(3), "BLOCK", "0")
	handedOver := []int{5, 9, 10} // all keys of these locks stay on one node
	var next []<-chan string
	for _, n := range handedOver {
		next = append(next, locktest.Connect(t, s).Await(s, 1, key(n), "BLOCK", "0"))
	}
	m, finish := locktest.StartMigration(t, tag)
	if err := m.MoveKey(key(1), key(2), key(3), key(7)); err != nil {
		t.Fatal(err)
	}
	locktest.Want(t, c.Do("LOCK.ACQUIRE", key(0)), "$-1") // counts as taken
	fresh := c.Start("LOCK.ACQUIRE", key(0), "BLOCK", "0")
	locktest.WantRenewed(t, s, key(1), key(2), key(3), key(4), key(5), key(6), key(7), key(8)) // on both nodes
	if len(a.Losses) != 0 {
		t.Fatalf("lost %s", <-a.Losses)
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key(1)), ":1")
	locktest.Want(t, a.Do("LOCK.RELEASE", key(4)), ":1")
	// its tombstone would be on the other node
	locktest.Want(t, c.Do("LOCK.RELEASE", key(2), "TOKEN", tokens[1]), ":1")
	locktest.Want(t, c.Do("LOCK.RELEASE", key(6), "OWNER", "me"), ":1")
	locktest.Want(t, c.Do("LOCK.RELEASE", key(7), "OWNER", "me", "ID", "r"), ":1")
	locktest.Want(t, a.Do("LOCK.RELEASE", key(7), "OWNER", "me", "ID", "r"), ":1")
	for _, n := range handedOver {
		locktest.Want(t, a.Do("LOCK.RELEASE", key(n)), ":1")
	}
	// A waiter that is just asking Redis itself gets its lock after the migration.
	locktest.Eventually(t, locktest.Soon, "a lock is handed over", func() bool {
		return slices.ContainsFunc(next, func(c <-chan string) bool { return len(c) > 0 })
	})
	locktest.Want(t, a.Do("LOCK.RELEASE", key(3)),
		":1") // Its keys are on two nodes, so there is no hand-over during the migration.
	<-time.After(time.Second)
	if len(waiting)+len(fresh) != 0 {
		t.Error("a lock was granted in a slot where its token could not be counted")
	}
	finish()
	locktest.TokenOf(t, locktest.Receive(t, waiting, 3*time.Second))
	locktest.TokenOf(t, locktest.Receive(t, fresh, 3*time.Second))
	for _, c := range next {
		locktest.TokenOf(t, locktest.Receive(t, c, locktest.Soon))
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key(8)), ":1")
	for n := 1; n <= 8; n++ {
		if n != 3 && n != 5 && locktest.Exists(t, rdb, key(n)) {
			t.Errorf("lock %d is still there", n)
		}
	}
	locktest.Eventually(t, 3*time.Second, "all is forgotten", func() bool { return a.Carrier.Holds() == 0 })
	if len(a.Losses) != 0 {
		t.Errorf("lost %s", <-a.Losses)
	}
}

// TestR14AttachExtendAndBreakInMigration: The keys of locks are split. LOCK.ATTACH waits until they
// are not. LOCK.EXTEND and LOCK.BREAK do not wait.
func TestR14AttachExtendAndBreakInMigration(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...)
	s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
	tag := "{" + locktest.NewKey() + "}"
	key := func(n int) string { return fmt.Sprint(tag, n) }
	a, b, c := locktest.Connect(t, s), locktest.Connect(t, other), locktest.Connect(t, other)
	var tokens []int64
	for n := range 4 {
		tokens = append(tokens, a.Token(key(n), "OWNER", "me"))
	}
	for n := 4; n < 8; n++ {
		tokens = append(tokens, c.Token(key(n), "LEASE", "60000"))
	}
	java := []string{key(8), key(9)}
	for _, k := range java {
		rdb.HSet(t.Context(), k, "0a1b:7", "1")
	}
	m, finish := locktest.StartMigration(t, tag)
	if err := m.MoveKey(key(0), key(2), key(4), key(6), key(8)); err != nil {
		t.Fatal(err)
	}
	var attached []<-chan string
	for n := range 2 { // key 0 has moved to the other node, and key 1 has not
		d := locktest.Connect(t, other)
		attached = append(attached, d.Start("LOCK.ATTACH", key(n), "OWNER", "me", "TOKEN",
			strconv.FormatInt(tokens[n], 10)))
	}
	for n := 4; n < 6; n++ {
		locktest.Want(t, c.Do("LOCK.EXTEND", key(n), "20000"), ":20000")
		locktest.Want(t, a.Do("LOCK.EXTEND", key(n), "10000", "TOKEN", strconv.FormatInt(tokens[n], 10)), ":10000")
	}
	locktest.Want(t, b.Do("LOCK.BREAK", key(2)), ":1") // its carrier is on another Leash
	locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key(2)+" broken")
	locktest.Want(t, b.Do("LOCK.BREAK", key(3)), ":1")
	locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key(3)+" broken")
	locktest.Want(t, b.Do("LOCK.BREAK", key(6)), ":1")
	locktest.Want(t, b.Do("LOCK.BREAK", key(7)), ":1")
	for _, k := range java {
		locktest.Want(t, b.Do("LOCK.BREAK", k), ":2")
	}
	if len(attached[0])+len(attached[1])+len(a.Moved) > 0 {
		t.Error("a hold was moved although its keys are split")
	}
	finish()
	for n, reply := range attached {
		if got := locktest.TokenOf(t, locktest.Receive(t, reply, 10*time.Second)); got != tokens[n] {
			t.Errorf("lock %d: attached with token %d, want %d", n, got, tokens[n])
		}
		locktest.Receive(t, a.Moved, 3*time.Second)
		locktest.Want(t, b.Do("LOCK.RELEASE", key(n), "OWNER", "me"), ":1")
	}
	for n := range 10 {
		if locktest.Exists(t, rdb, key(n)) != (n == 4 || n == 5) {
			t.Errorf("lock %d: there is %v", n, !(n == 4 || n == 5))
		}
	}
}

// TestR14SemaphoreInMigration: The keys of a semaphore are split. Commands that need all of them
// wait until they are not.
func TestR14SemaphoreInMigration(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...)
	s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
		locktest.NewKey()
	a, b := locktest.Connect(t, s), locktest.Connect(t, other)
	locktest.Want(t, a.Do("SEM.INIT", key, "3"), ":1")
	foreign := locktest.PermitOf(t, a.Do("SEM.ACQUIRE", key))
	locktest.PermitOf(t, a.Do("SEM.ACQUIRE", key))
	m, finish := locktest.StartMigration(t, key)
	if err := m.MoveKey(key); err != nil {
		t.Fatal(err)
	}
	c, d := locktest.Connect(t, s), locktest.Connect(t, s)
	released, revoked := a.Start("SEM.RELEASE", key), b.Start("SEM.RELEASE", key, foreign)
	resized, info := c.Start("SEM.RESIZE", key, "5"), d.Start("SEM.INFO", key)
	<-time.After(200 * time.Millisecond)
	if len(released)+len(revoked)+len(resized)+len(info) > 0 {
		t.Error("a command was answered although its keys are split")
	}
	finish()
	locktest.Want(t, locktest.Receive(t, released, locktest.Soon), ":1")
	locktest.Want(t, locktest.Receive(t, revoked, locktest.Soon), ":1")
	locktest.Receive(t, resized, locktest.Soon)
	locktest.Receive(t, info, locktest.Soon)
	locktest.Want(t, d.Do("SEM.RESIZE", key, "5"), ":5")
}

// TestR14ReleaseOfABrokenHoldInMigration: A BREAK has marked a hold whose keys are split, and its
// event was lost. A release through another Leash ends nothing, and tells the holder's Leash.
func TestR14ReleaseOfABrokenHoldInMigration(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...)
	s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
		locktest.NewKey()
	a, b := locktest.Connect(t, s), locktest.Connect(t, other)
	token := a.Token(key, "OWNER", "me")
	m, finish := locktest.StartMigration(t, key)
	defer finish()
	if err := m.MoveKey(key); err != nil {
		t.Fatal(err)
	}
	tombstone := script.TombstoneKey(key, token, a.Carrier.Name)
	rdb.Set(t.Context(), tombstone, event.Broken, time.Minute)
	locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "me"), "-"+refusal.NotHeld)
	locktest.Want(t, locktest.Receive(t, a.Losses, locktest.Soon), key+" "+renewal.ReasonBroken)
	locktest.Eventually(t, locktest.Soon, "it is ended", func() bool { return !locktest.Exists(t, rdb, key) })
	locktest.Want(t, rdb.Get(t.Context(), tombstone).Val(), event.Lost+" "+renewal.ReasonBroken)
}
