package lockcmd

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd/event"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/proxy/slots"
	"leash/renewal"
)

// startMigration starts a slot migration with the lock keys of a test in the slot.
func startMigration(t *testing.T, key string) (*redistest.Move, func()) {
	t.Helper()
	c := sharedCluster(t)
	slot := int(slots.Of([]byte(key)))
	from := c.MasterOf(slot)
	to := c.MasterOf((slot + slots.Count/3) % slots.Count)
	if from == to {
		to = c.MasterOf((slot + 2*slots.Count/3) % slots.Count)
	}
	m, err := c.BeginMove(slot, to)
	if err != nil {
		t.Fatal(err)
	}
	return m, func() {
		if _, err := m.MoveKeys(-1); err != nil {
			t.Fatal(err)
		}
		if err := m.Finish(); err != nil {
			t.Fatal(err)
		}
	}
}

// wantRenewed asks a Leash to renew keys with short TTLs, and checks that it does. It does not wait
// for the periodic renewal. On a machine that stalls for longer than a TTL, the locks would rightly
// be lost.
func wantRenewed(t *testing.T, s *Service, keys ...string) {
	t.Helper()
	const little = 15 * time.Second
	for _, k := range keys {
		if !s.Redis.Redis.PExpire(t.Context(), k, little).Val() {
			t.Errorf("%s is not there", k)
		}
	}
	s.RenewAll(t.Context())
	for _, k := range keys {
		if left := s.Redis.Redis.PTTL(t.Context(), k).Val(); left <= little {
			t.Errorf("%s has %v left, it was not renewed", k, left)
		}
	}
}

func TestR14SlotInMigration(t *testing.T) {
	t.Parallel()
	rdb := dialCluster(t, sharedCluster(t).Addrs()...)
	s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
	tag := "{" + newKey() + "}"
	key := func(n int) string { return fmt.Sprint(tag, n) }
	a, b, c, d := connect(t, s), connect(t, s), connect(t, other), connect(t, s)
	a.token(key(0))
	want(t, a.do("LOCK.RELEASE", key(0)), ":1") // leaves a counter, so one of two keys exists
	var tokens []string
	for n := 1; n <= 8; n++ {
		tokens = append(tokens, strconv.FormatInt(a.token(key(n), "OWNER", "me"), 10))
	}
	waiting, next := b.await(s, 1, key(3), "BLOCK", "0"), d.await(s, 1, key(5), "BLOCK", "0")
	m, finish := startMigration(t, tag)
	if err := m.MoveKey(key(1), key(2), key(3), key(7)); err != nil {
		t.Fatal(err)
	}
	want(t, c.do("LOCK.ACQUIRE", key(0)), "$-1") // counts as taken
	fresh := c.start("LOCK.ACQUIRE", key(0), "BLOCK", "0")
	wantRenewed(t, s, key(1), key(2), key(3), key(4), key(5), key(6), key(7), key(8)) // on both nodes
	if len(a.losses) != 0 {
		t.Fatalf("lost %s", <-a.losses)
	}
	want(t, a.do("LOCK.RELEASE", key(1)), ":1")
	want(t, a.do("LOCK.RELEASE", key(4)), ":1")
	// its tombstone would be on the other node
	want(t, c.do("LOCK.RELEASE", key(2), "TOKEN", tokens[1]), ":1")
	want(t, c.do("LOCK.RELEASE", key(6), "OWNER", "me"), ":1")
	want(t, c.do("LOCK.RELEASE", key(7), "OWNER", "me", "ID", "r"), ":1")
	want(t, a.do("LOCK.RELEASE", key(7), "OWNER", "me", "ID", "r"), ":1")
	want(t, a.do("LOCK.RELEASE", key(5)), ":1") // all its keys are on one node
	tokenOf(t, receive(t, next, time.Second))
	want(t, a.do("LOCK.RELEASE", key(3)),
		":1") // Its keys are on two nodes, so there is no hand-over during the migration.
	<-time.After(time.Second)
	if len(waiting)+len(fresh) != 0 {
		t.Error("a lock was granted in a slot where its token could not be counted")
	}
	finish()
	tokenOf(t, receive(t, waiting, 3*time.Second))
	tokenOf(t, receive(t, fresh, 3*time.Second))
	want(t, a.do("LOCK.RELEASE", key(8)), ":1")
	for n := 1; n <= 8; n++ {
		if n != 3 && n != 5 && exists(t, rdb, key(n)) {
			t.Errorf("lock %d is still there", n)
		}
	}
	eventually(t, 3*time.Second, "all is forgotten", func() bool { return a.carrier.Holds() == 0 })
	if len(a.losses) != 0 {
		t.Errorf("lost %s", <-a.losses)
	}
}

// TestR14AttachExtendAndBreakInMigration: The keys of locks are split. LOCK.ATTACH waits until they
// are not. LOCK.EXTEND and LOCK.BREAK do not wait.
func TestR14AttachExtendAndBreakInMigration(t *testing.T) {
	t.Parallel()
	rdb := dialCluster(t, sharedCluster(t).Addrs()...)
	s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
	tag := "{" + newKey() + "}"
	key := func(n int) string { return fmt.Sprint(tag, n) }
	a, b, c := connect(t, s), connect(t, other), connect(t, other)
	var tokens []int64
	for n := range 4 {
		tokens = append(tokens, a.token(key(n), "OWNER", "me"))
	}
	for n := 4; n < 8; n++ {
		tokens = append(tokens, c.token(key(n), "LEASE", "60000"))
	}
	java := []string{key(8), key(9)}
	for _, k := range java {
		rdb.HSet(t.Context(), k, "0a1b:7", "1")
	}
	m, finish := startMigration(t, tag)
	if err := m.MoveKey(key(0), key(2), key(4), key(6), key(8)); err != nil {
		t.Fatal(err)
	}
	var attached []<-chan string
	for n := range 2 { // key 0 has moved to the other node, and key 1 has not
		d := connect(t, other)
		attached = append(attached, d.start("LOCK.ATTACH", key(n), "OWNER", "me", "TOKEN", strconv.FormatInt(tokens[n], 10)))
	}
	for n := 4; n < 6; n++ {
		want(t, c.do("LOCK.EXTEND", key(n), "20000"), ":20000")
		want(t, a.do("LOCK.EXTEND", key(n), "10000", "TOKEN", strconv.FormatInt(tokens[n], 10)), ":10000")
	}
	want(t, b.do("LOCK.BREAK", key(2)), ":1") // its carrier is on another Leash
	want(t, receive(t, a.losses, time.Second), key(2)+" broken")
	want(t, b.do("LOCK.BREAK", key(3)), ":1")
	want(t, receive(t, a.losses, time.Second), key(3)+" broken")
	want(t, b.do("LOCK.BREAK", key(6)), ":1")
	want(t, b.do("LOCK.BREAK", key(7)), ":1")
	for _, k := range java {
		want(t, b.do("LOCK.BREAK", k), ":2")
	}
	if len(attached[0])+len(attached[1])+len(a.moved) > 0 {
		t.Error("a hold was moved although its keys are split")
	}
	finish()
	for n, reply := range attached {
		if got := tokenOf(t, receive(t, reply, 10*time.Second)); got != tokens[n] {
			t.Errorf("lock %d: attached with token %d, want %d", n, got, tokens[n])
		}
		receive(t, a.moved, 3*time.Second)
		want(t, b.do("LOCK.RELEASE", key(n), "OWNER", "me"), ":1")
	}
	for n := range 10 {
		if exists(t, rdb, key(n)) != (n == 4 || n == 5) {
			t.Errorf("lock %d: there is %v", n, !(n == 4 || n == 5))
		}
	}
}

// TestR14SemaphoreInMigration: The keys of a semaphore are split. Commands that need all of them
// wait until they are not.
func TestR14SemaphoreInMigration(t *testing.T) {
	t.Parallel()
	rdb := dialCluster(t, sharedCluster(t).Addrs()...)
	s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
	a, b := connect(t, s), connect(t, other)
	want(t, a.do("SEM.INIT", key, "3"), ":1")
	foreign := permitOf(t, a.do("SEM.ACQUIRE", key))
	permitOf(t, a.do("SEM.ACQUIRE", key))
	m, finish := startMigration(t, key)
	if err := m.MoveKey(key); err != nil {
		t.Fatal(err)
	}
	c, d := connect(t, s), connect(t, s)
	released, revoked := a.start("SEM.RELEASE", key), b.start("SEM.RELEASE", key, foreign)
	resized, info := c.start("SEM.RESIZE", key, "5"), d.start("SEM.INFO", key)
	<-time.After(200 * time.Millisecond)
	if len(released)+len(revoked)+len(resized)+len(info) > 0 {
		t.Error("a command was answered although its keys are split")
	}
	finish()
	want(t, receive(t, released, soon), ":1")
	want(t, receive(t, revoked, soon), ":1")
	receive(t, resized, soon)
	receive(t, info, soon)
	want(t, d.do("SEM.RESIZE", key, "5"), ":5")
}

// TestR14ReleaseOfABrokenHoldInMigration: A BREAK has marked a hold whose keys are split, and its
// event was lost. A release through another Leash ends nothing, and tells the holder's Leash.
func TestR14ReleaseOfABrokenHoldInMigration(t *testing.T) {
	t.Parallel()
	rdb := dialCluster(t, sharedCluster(t).Addrs()...)
	s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
	a, b := connect(t, s), connect(t, other)
	token := a.token(key, "OWNER", "me")
	m, finish := startMigration(t, key)
	defer finish()
	if err := m.MoveKey(key); err != nil {
		t.Fatal(err)
	}
	tombstone := script.TombstoneKey(key, token, a.carrier.Name)
	rdb.Set(t.Context(), tombstone, event.Broken, time.Minute)
	want(t, b.do("LOCK.RELEASE", key, "OWNER", "me"), "-"+refusal.NotHeld)
	want(t, receive(t, a.losses, soon), key+" "+renewal.ReasonBroken)
	eventually(t, soon, "it is ended", func() bool { return !exists(t, rdb, key) })
	want(t, rdb.Get(t.Context(), tombstone).Val(), event.Lost+" "+renewal.ReasonBroken)
}
