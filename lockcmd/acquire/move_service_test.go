package acquire_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
)

func TestR4HoldMovesBackAndForth(t *testing.T) {
	t.Parallel()
	for _, pause := range []int{0, 300, 2000} {
		rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
		s1, s2 := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		a, b, key := locktest.Connect(t, s1), locktest.Connect(t, s2), locktest.NewKey()
		token := a.Token(key, "OWNER", "x", "ID", "1")
		for i := range 100 {
			for _, c := range []*locktest.Client{b, a} {
				if again := c.Token(key, "OWNER", "x", "ID", "1"); again != token {
					t.Fatalf("round %d: got token %d, want %d", i, again, token)
				}
				// a random pause, so that the event arrives at any moment
				<-time.After(time.Duration(rand.IntN(pause+1)) * time.Microsecond)
			}
			if len(a.Losses)+len(b.Losses) > 0 {
				t.Fatalf("pause %d, round %d: a moved hold was reported as a loss", pause, i)
			}
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if locktest.Exists(t, rdb, key) {
			t.Error("the lock is still there")
		}
	}
}

func TestR26MoveOfAnotherTokenFindsTheOldHoldLost(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s1, s2 := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
	a, b, key := locktest.Connect(t, s1), locktest.Connect(t, s2), locktest.NewKey()
	a.Token(key, "OWNER", "x", "ID", "1")
	rdb.Del(t.Context(), key) // the hold is deleted without Leash
	b.Token(key, "OWNER", "x", "ID", "1")
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "x", "ID", "1"), "-"+locktest.MsgLost(key, "gone"))
	locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" gone")
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
}

func TestR4MoveKeepsTheCount(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a, b := locktest.Connect(t, s), locktest.Connect(t, s)
	a.Token(key, "OWNER", "x", "ID", "1")
	a.Token(key, "OWNER", "x", "ID", "2")
	a.Token(key, "OWNER", "x", "ID", "2")
	if d := a.Oldest().Details(); d.Count != 2 {
		t.Errorf("got count %d, want 2", d.Count)
	}
	b.Token(key, "OWNER", "x", "ID", "2")
	if d := b.Oldest().Details(); d.Count != 2 {
		t.Errorf("got count %d, want 2", d.Count)
	}
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":0")
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
}
