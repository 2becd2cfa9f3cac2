package restore_test

import (
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd/hold"
	"leash/proxy/slots"
)

// TestR2ReleaseAfterAMoveWithoutAnEvent: A release waits for a restore and detects that the slot
// has moved to another master. It does not wait for the periodic refresh of the topology (30 s).
func TestR2ReleaseAfterAMoveWithoutAnEvent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	cfg := locktest.GraceConfig()
	cfg.WatchdogTimeout, cfg.UpstreamTimeout = 10*time.Minute, 4*time.Second
	s := locktest.Start(t, locktest.DialCluster(t, cluster.Addrs()...), cfg, locktest.Graceful)
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key)
	h := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
	end := locktest.BeginGrace(t, s, key)
	defer end()
	locktest.Forget(t, locktest.RedisOf(s), key)
	from := cluster.MasterOf(int(slots.Of([]byte(key))))
	for _, to := range cluster.Masters() {
		if to != from {
			m, err := cluster.BeginMove(int(slots.Of([]byte(key))), to)
			if err == nil {
				_, err = m.MoveKeys(-1)
			}
			if err == nil {
				err = m.Finish()
			}
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	// Eventually and Receive wait ten times as long as they are told
	begun := time.Now()
	reply := a.Start("LOCK.RELEASE", key)
	locktest.Eventually(t, 15*time.Second, "the release has ended", func() bool { return h.State() == hold.Over })
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("the release took %v", took)
	}
	locktest.Receive(t, reply, 15*time.Second)
}
