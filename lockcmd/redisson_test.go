package lockcmd_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

func owners(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "me:" + strconv.Itoa(i)
	}
	return names
}

func TestR22ScoresAreRedissons(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, name := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), owners(4)
		holder := locktest.Connect(t, s)
		began := time.Now().UnixMilli()
		holder.Token(key, "OWNER", name[0])
		granted := time.Now().UnixMilli()
		first := locktest.Connect(t, s).WaitFair(rdb, 1, key, "BLOCK", "0", "OWNER", name[1])
		j := locktest.NewJavaFair(t, rdb, key, "java:1")
		if j.Attempt() {
			t.Fatal("java got a lock that is held")
		}
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		second := a.WaitFair(rdb, 3, key, "BLOCK", "0", "OWNER", name[2])
		third := b.WaitFair(rdb, 4, key, "BLOCK", "0", "OWNER", name[3])
		one := locktest.FairScore(rdb, key, name[1])
		if one < began+330000-100 || one > granted+330000+100 {
			t.Errorf("got score %d of the first, want %d: the rest of the lease and 300 s", one, granted+330000)
		}
		for i, who := range []string{"java:1", name[2], name[3]} {
			if got, want := locktest.FairScore(rdb, key, who), one+int64(i+1)*300000; got != want {
				t.Errorf("got score %d of %s, want %d", got, who, want)
			}
		}
		locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, first, 3*time.Second))
		// a waiter that gets the lock takes its 300 s off the scores behind it
		for i, who := range []string{"java:1", name[2], name[3]} {
			if got, want := locktest.FairScore(rdb, key, who), one+int64(i)*300000; got != want {
				t.Errorf("got score %d of %s, want %d", got, who, want)
			}
		}
		a.Gone() // so does a waiter that gives up
		locktest.WantPrefix(t, locktest.Receive(t, second, 3*time.Second), "-LOCKTIMEOUT")
		locktest.Eventually(t, 3*time.Second, "it has left",
			func() bool { return len(locktest.FairOrder(rdb, key)) == 2 })
		if one, three := locktest.FairScore(rdb, key, "java:1"),
			locktest.FairScore(rdb, key, name[3]); three != one+300000 {
			t.Errorf("got scores %d and %d, want 300000 between", one, three)
		}
		j.GiveUp() // Java learns nothing of the others
		if got := locktest.FairScore(rdb, key, name[3]); got != one {
			t.Errorf("got score %d of the last, want %d", got, one)
		}
		b.Gone()
		locktest.Receive(t, third, 3*time.Second)
		locktest.Eventually(t, 3*time.Second, "the queue is gone", func() bool {
			return !locktest.Exists(t, rdb, script.QueueKeys(key)[0])
		})
	})
}

func TestR22JavaAndLeashServeInOrder(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		first := locktest.NewJavaFair(t, rdb, key, "java:0")
		if !first.TryLock() {
			t.Fatal("java did not get a free lock")
		}
		a, c := locktest.Connect(t, s), locktest.Connect(t, s)
		mine := a.WaitFair(rdb, 1, key, "BLOCK", "0")
		second := locktest.NewJavaFair(t, rdb, key, "java:1")
		javas := second.Lock()
		last := c.WaitFair(rdb, 3, key, "BLOCK", "0")
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.ACQUIRE", key, "FAIR"), "$-1")

		first.Unlock()
		locktest.TokenOf(t, locktest.Woken(t, mine))
		if len(javas)+len(last) != 0 {
			t.Fatal("two holders")
		}
		began := time.Now()
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if took := locktest.Receive(t, javas, 5*time.Second).Sub(began); took > locktest.Soon {
			t.Errorf("our release woke Java after %v", took)
		}
		if len(last) != 0 {
			t.Fatal("two holders")
		}
		second.Unlock()
		locktest.TokenOf(t, locktest.Receive(t, last, 5*time.Second))
		if locktest.NewJavaFair(t, rdb, key, "java:2").TryLock() {
			t.Fatal("two holders")
		}
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothingLeft(t, rdb, key)
	})
}
