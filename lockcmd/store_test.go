package lockcmd

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/proxy/resp"
	"leash/renewal"
)

// batchOf returns a batch of n holds.
func batchOf(s *Service, m *script.Mode, n int) (b renewal.Batch) {
	c := s.NewCarrier(1, Client{}, nil, nil)
	for i := range n {
		h := hold.New(&c.Carrier, &hold.Grant{Key: "key" + strconv.Itoa(i), Mode: m, Number: int64(i + 1), Token: 1e15})
		b.Holds = append(b.Holds, &h.Watch)
	}
	return b
}

// TestRenewalsNameEachHold: A round names each hold as renew.lua reads it. It allocates nothing for
// a single hold.
func TestRenewalsNameEachHold(t *testing.T) {
	var sent []byte
	const many = 256
	s := &store{Service: &Service{holds: hold.NewRegistry(hold.Config{Leash: "one"})}}
	s.redis = &script.Client{Links: linksWith{
		scripts: func(_ time.Time, _, _, _ int, commands, dst []byte) ([]byte, bool, error) {
			sent = append(sent[:0], commands...)
			holds := bytes.Count(commands, []byte("\r\nL1 "))
			dst = append(dst, "*"+strconv.Itoa(holds)+"\r\n"...)
			for range holds {
				dst = append(dst, ":1\r\n"...)
			}
			return dst, true, nil
		}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	batches := []renewal.Batch{batchOf(s.Service, script.Plain, 2)}
	out := [][]renewal.Outcome{make([]renewal.Outcome, many)}
	batches[0].TTL = time.Minute
	record := script.RecordPrefix(1e15, batches[0].Holds[0].Keeper.(*hold.Hold).Carrier.Name)
	s.Renew(ctx, "", batches, [][]renewal.Outcome{out[0][:2]})
	want := string(resp.AppendCommand(nil, "EVALSHA", script.RenewScript.SHA, "2", "key0", "key1", "60000",
		s.holds.OwnerName(1), record, s.holds.OwnerName(2), record))
	if string(sent) != want || out[0][1] != renewal.Renewed {
		t.Errorf("got %q, want %q", sent, want)
	}
	batches[0] = batchOf(s.Service, script.Plain, many)
	if n := testing.AllocsPerRun(100, func() { s.Renew(ctx, "", batches, out) }); n > many/4 {
		t.Errorf("%v allocations for %d holds, want few", n, many)
	}
}

// BenchmarkRenewRound measures what a round of one batch costs Leash, without Redis.
func BenchmarkRenewRound(b *testing.B) {
	for _, m := range append(script.Modes[:], script.Permit) {
		b.Run(m.Name, func(b *testing.B) {
			const holds = 256
			answer := []byte("*256\r\n" + strings.Repeat(":1\r\n", holds))
			s := &store{Service: &Service{holds: hold.NewRegistry(hold.Config{Leash: "one"})}}
			s.redis = &script.Client{Links: linksWith{
				scripts: func(_ time.Time, _, _, _ int, _, dst []byte) ([]byte, bool, error) {
					return append(dst, answer...), true, nil
				}}}
			batches := []renewal.Batch{batchOf(s.Service, m, holds)}
			batches[0].TTL = time.Minute
			out := [][]renewal.Outcome{make([]renewal.Outcome, holds)}
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				s.Renew(ctx, "", batches, out)
			}
			if out[0][holds-1] != renewal.Renewed {
				b.Errorf("got %v", out[0][holds-1])
			}
		})
	}
}

// TestR24OneQueueANode: Renewals wait in the queue of the node that has them, even when several
// nodes are asked for the topology.
func TestR24OneQueueANode(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := &store{Service: leash(t, rdb, Config{})}
		asked := &store{Service: &Service{redis: script.New(rdb)}}
		lines := make(map[string]bool)
		for range 50 {
			slot := script.SlotOf(newKey())
			node, want := s.Node(3, slot), asked.Node(3, slot)
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		var wired atomic.Int64
		s := leash(t, rdb, Config{WatchdogTimeout: 300 * time.Millisecond}, func(s *Service) {
			up := s.redis.Links
			s.redis.Links = linksWith{Links: up, scripts: func(until time.Time, db, slot, n int, commands,
				dst []byte) ([]byte, bool, error) {
				reply, sent, err := up.Scripts(until, db, slot, n, commands, dst)
				if err == nil && !bytes.Contains(reply, []byte("-")) {
					wired.Add(1)
				}
				return reply, sent, err
			}}
		})
		a := connect(t, s)
		keys := []string{newKey(), newKey(), newKey()}
		for _, key := range keys {
			a.token(key)
		}
		for range 2 {
			was := wired.Load()
			eventually(t, 20*time.Second, "renewals go by the wire", func() bool { return wired.Load() > was+5 })
			if err := each(rdb, func(c *redis.Client) error { return c.ScriptFlush(t.Context()).Err() }); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range keys {
			want(t, a.do("LOCK.RELEASE", key), ":1")
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
	rdb, astray := dialCluster(t, sharedCluster(t).Addrs()...), &misroutedCounter{}
	if err := each(rdb, func(c *redis.Client) error { c.AddHook(astray); return nil }); err != nil {
		t.Fatal(err)
	}
	s := leash(t, rdb, Config{WatchdogTimeout: 300 * time.Millisecond, Links: noDirectPath{}})
	a := connect(t, s)
	for range 9 {
		a.token(newKey())
	}
	eventually(t, 20*time.Second, "the holds are renewed", func() bool { return s.watchdog.Stats.Renewals.Load() > 50 })
	if n := astray.Load(); n > 0 {
		t.Errorf("%d renewals went to a wrong node first", n)
	}
}
