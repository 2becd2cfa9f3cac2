package restore_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
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
		asked := &restore.Restorer{Redis: script.New(rdb)}
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

// misroutedCounter counts pipelined commands that reach a node without their slot.
type misroutedCounter struct{ atomic.Int64 }

func (*misroutedCounter) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*misroutedCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (n *misroutedCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if redis.HasErrorPrefix(cmd.Err(), "MOVED") {
				n.Add(1)
			}
		}
		return err
	}
}

// TestRenewalsByTheClientReachTheRightNode: Without a direct path, go-redis sends the renewals. It
// must find the right node from the command itself. Otherwise it sends them to any node, and all
// holds are lost when one node is silent.
func TestRenewalsByTheClientReachTheRightNode(t *testing.T) {
	t.Parallel()
	rdb, astray := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...), &misroutedCounter{}
	if err := locktest.Each(rdb, func(c *redis.Client) error { c.AddHook(astray); return nil }); err != nil {
		t.Fatal(err)
	}
	s := locktest.Start(t, rdb, lockcmd.Config{Links: locktest.NoDirectPath{}})
	a := locktest.Connect(t, s)
	for range 9 {
		a.Token(locktest.NewKey())
	}
	locktest.Eventually(t, locktest.Soon, "the holds are renewed", func() bool {
		s.Watchdog.CheckAll()
		return s.Watchdog.Stats.Renewals.Load() > 50
	})
	if n := astray.Load(); n > 0 {
		t.Errorf("%d renewals went to a wrong node first", n)
	}
}
