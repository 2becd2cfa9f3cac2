package lockcmd

import (
	"fmt"
	"testing"
	"time"
)

func TestR14ReadWriteInASlotInMigration(t *testing.T) {
	rdb := dialCluster(t, sharedCluster(t).Addrs()...)
	s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
	tag := "{" + newKey() + "}"
	key := func(n int) string { return fmt.Sprint(tag, n) }
	a, c := connect(t, s), connect(t, other)
	const locks = 6
	for n := range locks {
		for _, option := range []string{"WRITE", "READ", "READ"} {
			a.token(key(n), option, "OWNER", "me")
		}
		want(t, a.do("LOCK.RELEASE", key(n), "WRITE"), ":1")
	}
	a.token(key(locks), "WRITE", "OWNER", "me")
	for _, option := range []string{"WRITE", "READ"} {
		a.token(key(locks+1), option, "OWNER", "me")
	}
	m, finish := moving(t, tag)
	timeouts := func(n, i int) string { return suffixName(key(n), fmt.Sprint("me:rwlock_timeout:", i)) }
	for _, keys := range [][]string{
		{key(1)}, {recordsKey(key(2))}, {timeouts(3, 1)}, {key(4), recordsKey(key(4)), timeouts(4, 1)},
		{key(5), recordsKey(key(5)), timeouts(5, 1), timeouts(5, 2)}, {key(locks)}, {key(locks + 1)},
	} {
		if err := m.MoveKey(keys...); err != nil {
			t.Fatal(err)
		}
	}
	for n := range locks {
		want(t, c.do("LOCK.ACQUIRE", key(n), "WRITE"), "$-1") // what cannot be seen counts as taken
	}
	var all []string // wherever they lie
	for n := range locks + 2 {
		all = append(all, key(n), recordsKey(key(n)))
		if n != locks {
			all = append(all, timeouts(n, 1))
		}
		if n < locks {
			all = append(all, timeouts(n, 2))
		}
	}
	until := func() string { return rwRecords(t, rdb, key(locks+1))["me:write"].value("until") }
	before := until()
	renews(t, s, all...)
	if until() == before {
		t.Error("the write hold beside a read hold was not renewed")
	}
	if len(a.losses) != 0 {
		t.Fatalf("lost %s", <-a.losses)
	}
	for n := range locks + 1 {
		if n < locks {
			want(t, a.do("LOCK.RELEASE", key(n)), ":0")
		}
		want(t, a.do("LOCK.RELEASE", key(n)), ":1")
	}
	finish()
	want(t, c.do("LOCK.ACQUIRE", key(locks+1), "READ"), "$-1") // it is still written
	for _, option := range []string{"READ", "WRITE"} {
		want(t, a.do("LOCK.RELEASE", key(locks+1), option), ":1")
	}
	eventually(t, 5*time.Second, "all is free", func() bool {
		for n := range locks + 2 {
			if exists(t, rdb, key(n)) {
				return false
			}
		}
		return a.carrier.Holds() == 0
	})
	if len(a.losses) != 0 {
		t.Errorf("lost %s", <-a.losses)
	}
}
