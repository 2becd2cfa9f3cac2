package lockcmd

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestR4HoldMovesBackAndForth(t *testing.T) {
	t.Parallel()
	for _, pause := range []int{0, 300, 2000} {
		rdb := dialServer(t, sharedServer(t).Addr)
		s1, s2 := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		a, b, key := connect(t, s1), connect(t, s2), newKey()
		token := a.token(key, "OWNER", "x", "ID", "1")
		for i := range 100 {
			for _, c := range []*conn{b, a} {
				if again := c.token(key, "OWNER", "x", "ID", "1"); again != token {
					t.Fatalf("round %d: got token %d, want %d", i, again, token)
				}
				// a random pause, so that the event arrives at any moment
				<-time.After(time.Duration(rand.IntN(pause+1)) * time.Microsecond)
			}
			if len(a.losses)+len(b.losses) > 0 {
				t.Fatalf("pause %d, round %d: a moved hold was reported as a loss", pause, i)
			}
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if exists(t, rdb, key) {
			t.Error("the lock is still there")
		}
	}
}

func TestR26MoveOfAnotherTokenFindsTheOldHoldLost(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s1, s2 := leash(t, rdb, Config{}), leash(t, rdb, Config{})
	a, b, key := connect(t, s1), connect(t, s2), newKey()
	a.token(key, "OWNER", "x", "ID", "1")
	rdb.Del(t.Context(), key) // the hold is deleted without Leash
	b.token(key, "OWNER", "x", "ID", "1")
	want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "x", "ID", "1"), "-"+msgLost(key, "gone"))
	want(t, receive(t, a.losses, time.Second), key+" gone")
	want(t, b.do("LOCK.RELEASE", key), ":1")
}

func TestR4MoveKeepsTheCount(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key := leash(t, rdb, Config{}), newKey()
	a, b := connect(t, s), connect(t, s)
	a.token(key, "OWNER", "x", "ID", "1")
	a.token(key, "OWNER", "x", "ID", "2")
	a.token(key, "OWNER", "x", "ID", "2")
	if d := a.carrier.oldest().Details(); d.Count != 2 {
		t.Errorf("got count %d, want 2", d.Count)
	}
	b.token(key, "OWNER", "x", "ID", "2")
	if d := b.carrier.oldest().Details(); d.Count != 2 {
		t.Errorf("got count %d, want 2", d.Count)
	}
	want(t, b.do("LOCK.RELEASE", key), ":0")
	want(t, b.do("LOCK.RELEASE", key), ":1")
}
