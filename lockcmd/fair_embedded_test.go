package lockcmd

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func TestEmbeddedFair(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := dialServer(t, m.Addr())
	s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), "k"
	conns := []*conn{connect(t, s), connect(t, other), connect(t, s), connect(t, other)}
	conns[0].token(key, "FAIR")
	replies := make([]<-chan string, len(conns))
	for i, c := range conns[1:] {
		replies[i+1] = c.waitFair(rdb, i+1, key, "BLOCK", "0")
	}
	conns[2].gone()
	receive(t, replies[2], 3*time.Second)
	for _, i := range []int{1, 3} {
		want(t, conns[map[int]int{1: 0, 3: 1}[i]].do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, replies[i], 3*time.Second))
	}
	want(t, conns[3].do("LOCK.RELEASE", key), ":1")
	wantNothingLeft(t, rdb, key)
}
