package restore_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/linktest"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/proxy/slots"
)

// TestR24OneQueueANode: Renewals wait in the queue of the node that has them, even when several
// nodes are asked for the topology.
func TestR24OneQueueANode(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		asked := &restore.Restorer{Redis: script.New(linktest.Open(t, rdb, nil))}
		lines := make(map[string]bool)
		for range 50 {
			slot := int(slots.Of([]byte(locktest.NewKey())))
			node, want := s.Releaser.Node(3, slot), asked.Node(3, slot)
			if node != want || node == "" {
				t.Fatalf("slot %d: got %q, the client says %q", slot, node, want)
			}
			lines[node] = true
		}
		if _, cluster := rdb.(*redis.ClusterClient); len(lines) == 1 == cluster {
			t.Errorf("got lines %v", lines)
		}
	})
}

// TestRenewalsTakeTheDirectPath: On a real Redis, renewals use the direct path, also after SCRIPT
// FLUSH.
func TestRenewalsTakeTheDirectPath(t *testing.T) {
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		var wired atomic.Int64
		s := locktest.Start(t, rdb, lockcmd.Config{}, func(s *lockcmd.Service) {
			up := s.Redis.Links
			s.Redis.Links = locktest.LinksWith{Links: up,
				OnScripts: func(until time.Time, db int, slot slots.Slot, n int,
					commands, dst []byte) ([]byte, bool, error) {
					reply, sent, err := up.Scripts(until, db, slot, n, commands, dst)
					if err == nil && !bytes.Contains(reply, []byte("-")) {
						wired.Add(1)
					}
					return reply, sent, err
				}}
		})
		a := locktest.Connect(t, s)
		keys := []string{locktest.NewKey(), locktest.NewKey(), locktest.NewKey()}
		for _, key := range keys {
			a.Token(key)
		}
		for range 2 {
			was := wired.Load()
			locktest.Eventually(t, locktest.Soon, "renewals go by the wire", func() bool {
				s.Watchdog.CheckAll()
				return wired.Load() > was+5
			})
			locktest.FlushScripts(t, rdb)
		}
		for _, key := range keys {
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		}
	})
}
