package wait_test

import (
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/lockcmd"

	"github.com/alicebob/miniredis/v2"
)

func TestEmbeddedFair(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := locktest.DialServer(t, m.Addr())
	s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}), "k"
	conns := []*locktest.Client{locktest.Connect(t, s), locktest.Connect(t, other), locktest.Connect(t, s),
		locktest.Connect(t, other)}
	conns[0].Token(key, "FAIR")
	replies := make([]<-chan string, len(conns))
	for i, c := range conns[1:] {
		replies[i+1] = c.WaitFair(rdb, i+1, key, "BLOCK", "0")
	}
	conns[2].Gone()
	locktest.Receive(t, replies[2], 3*time.Second)
	for _, i := range []int{1, 3} {
		locktest.Want(t, conns[map[int]int{1: 0, 3: 1}[i]].Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, replies[i], 3*time.Second))
	}
	locktest.Want(t, conns[3].Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothingLeft(t, rdb, key)
}
