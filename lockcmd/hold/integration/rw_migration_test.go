package hold_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR14ReadWriteInASlotInMigration(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...)
	s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
	tag := "{" + locktest.NewKey() + "}"
	key := func(n int) string { return fmt.Sprint(tag, n) }
	a, c := locktest.Connect(t, s), locktest.Connect(t, other)
	const locks = 6
	for n := range locks {
		for _, option := range []string{"WRITE", "READ", "READ"} {
			a.Token(key(n), option, "OWNER", "me")
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key(n), "WRITE"), ":1")
	}
	a.Token(key(locks), "WRITE", "OWNER", "me")
	for _, option := range []string{"WRITE", "READ"} {
		a.Token(key(locks+1), option, "OWNER", "me")
	}
	m, finish := locktest.StartMigration(t, tag)
	timeouts := func(n, i int) string { return script.SuffixName(key(n), fmt.Sprint("me:rwlock_timeout:", i)) }
	for _, keys := range [][]string{
		{key(1)}, {script.RecordsKey(key(2))}, {timeouts(3, 1)}, {key(4), script.RecordsKey(key(4)), timeouts(4, 1)},
		{key(5), script.RecordsKey(key(5)), timeouts(5, 1), timeouts(5, 2)}, {key(locks)}, {key(locks + 1)},
	} {
		if err := m.MoveKey(keys...); err != nil {
			t.Fatal(err)
		}
	}
	for n := range locks {
		locktest.Want(t, c.Do("LOCK.ACQUIRE", key(n), "WRITE"), "$-1") // an unknown state counts as taken
	}
	var all []string // on both nodes
	for n := range locks + 2 {
		all = append(all, key(n), script.RecordsKey(key(n)))
		if n != locks {
			all = append(all, timeouts(n, 1))
		}
		if n < locks {
			all = append(all, timeouts(n, 2))
		}
	}
	until := func() string { return rwRecords(t, rdb, key(locks+1))["me:write"].ExtValue("until") }
	before := until()
	locktest.WantRenewed(t, s, all...)
	if until() == before {
		t.Error("the write hold beside a read hold was not renewed")
	}
	if len(a.Losses) != 0 {
		t.Fatalf("lost %s", <-a.Losses)
	}
	for n := range locks + 1 {
		if n < locks {
			locktest.Want(t, a.Do("LOCK.RELEASE", key(n)), ":0")
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key(n)), ":1")
	}
	finish()
	locktest.Want(t, c.Do("LOCK.ACQUIRE", key(locks+1), "READ"), "$-1") // there is still a writer
	for _, option := range []string{"READ", "WRITE"} {
		locktest.Want(t, a.Do("LOCK.RELEASE", key(locks+1), option), ":1")
	}
	locktest.Eventually(t, 5*time.Second, "all is free", func() bool {
		for n := range locks + 2 {
			if locktest.Exists(t, rdb, key(n)) {
				return false
			}
		}
		return a.Carrier.Holds() == 0
	})
	if len(a.Losses) != 0 {
		t.Errorf("lost %s", <-a.Losses)
	}
}

// TestR14ReadWriteHoldsWaitForTheirKeys: The keys of a hold are on two nodes during a slot
// migration. Requests about the hold wait until they are together, and are refused only after their
// time.
func TestR14ReadWriteHoldsWaitForTheirKeys(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...)
	s, other := locktest.Start(t, rdb, lockcmd.Config{}),
		locktest.Start(t, rdb, lockcmd.Config{UpstreamTimeout: time.Minute})
	hasty := locktest.Start(t, rdb, lockcmd.Config{UpstreamTimeout: time.Second})
	tag := "{" + locktest.NewKey() + "}"
	asked := []struct{ command, want string }{
		{"LOCK.CHECK %k TOKEN %t", ":1"},
		{"LOCK.EXTEND %k 300000 TOKEN %t", ":300000"},
		{"LOCK.ATTACH %k OWNER me TOKEN %t", ":%t"},
		{"LOCK.RELEASE %k TOKEN %t", ":1"},
		{"LOCK.BREAK %k", ":1"},
		{"LOCK.AWAITLOSS %k TOKEN %t BLOCK 6000", "$-1"},
	}
	for _, option := range []string{"READ", "WRITE"} {
		key := func(i int) string { return fmt.Sprint(tag, option, i) }
		tokens := make([]string, len(asked))
		for i := range asked {
			tokens[i] = strconv.FormatInt(locktest.Connect(t, s).Token(key(i), option, "OWNER", "me", "LEASE",
				"600000"), 10)
		}
		filled := func(i int, text string) string {
			return strings.NewReplacer("%k", key(i), "%t", tokens[i]).Replace(text)
		}
		m, finish := locktest.StartMigration(t, tag)
		replies := make([]<-chan string, len(asked))
		for i, a := range asked {
			if err := m.MoveKey(key(i)); err != nil {
				t.Fatal(err)
			}
			replies[i] = locktest.Connect(t, other).Start(strings.Fields(filled(i, a.command))...)
		}
		began := time.Now()
		locktest.WantPrefix(t, locktest.Connect(t, hasty).Do("LOCK.CHECK", key(0), "TOKEN", tokens[0]),
			"-"+refusal.NotAccepted+": TRYAGAIN ")
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("refused after %v", took)
		}
		finish()
		for i, a := range asked {
			if got, want := locktest.Receive(t, replies[i], locktest.Soon), filled(i, a.want); got != want {
				t.Errorf("%s %s: got %q, want %q", option, a.command, got, want)
			}
		}
	}
}

// TestR14ReaderOfWhichOneKeyHasNotMoved: A node that imports a slot takes a key that has not moved
// yet for missing. The reader must not look dead there.
func TestR14ReaderOfWhichOneKeyHasNotMoved(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
	a.Token(key, "READ")
	waiting := b.Await(s, 1, key, "WRITE", "BLOCK", "0")
	m, finish := locktest.StartMigration(t, key)
	if err := m.MoveKey(key, script.RecordsKey(key), script.TokenKey(key), script.TurnsKey(key)); err != nil {
		t.Fatal(err)
	}
	locktest.Want(t, c.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
	if len(waiting) > 0 {
		t.Errorf("a writer got %s beside a reader", <-waiting)
	}
	locktest.WantRenewed(t, s, key, script.RecordsKey(key))
	if len(a.Losses) != 0 {
		t.Errorf("lost %s", <-a.Losses)
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	finish()
	locktest.TokenOf(t, locktest.Receive(t, waiting, 10*time.Second))
}
