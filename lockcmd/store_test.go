package lockcmd

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
	"leash/renewal"
)

// TestR25RefusedBatchesAreNotSplit: Redis refuses a batch of renewals. If the server serves nothing
// now, the outcome is unknown. If one hold may be the cause, the holds are renewed one by one.
func TestR25RefusedBatchesAreNotSplit(t *testing.T) {
	t.Parallel()
	h := &hold{kind: script.Plain.ID}
	h.watch.Keeper = h
	b := renewal.Batch{Holds: []*renewal.Hold{&h.watch}}
	s := &store{Service: &Service{redis: script.New(nil)}}
	for _, row := range []struct {
		err    error
		pieces bool
	}{
		{script.ReplyError("CLUSTERDOWN The cluster is down"), false},
		{script.ReplyError("LOADING Redis is loading the dataset in memory"), false},
		{script.ReplyError("READONLY You can't write against a read only replica."), false},
		{errors.New("i/o timeout"), false},
		// one key may exist (R14)
		{script.ReplyError("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{script.ReplyError("NOPERM No permissions to access a key"), true},
		{script.ReplyError("ERR Error running script"), true},
	} {
		out := make([]renewal.Outcome, 1)
		if pieces := !s.outcomes(t.Context(), b, nil, row.err, time.Now(), out); pieces != row.pieces {
			t.Errorf("%v: in pieces: %v, want %v", row.err, pieces, row.pieces)
		}
		if out[0] != renewal.Unknown {
			t.Errorf("%v: got %v, want it unknown", row.err, out)
		}
	}
}

// TestRenewalsOnTheDirectPath: Batches that Redis certainly has not run are sent again through the
// client library. When Redis may have run a batch, its outcome is unknown.
func TestRenewalsOnTheDirectPath(t *testing.T) {
	yes, broken := "*1\r\n:1\r\n", errors.New("broken")
	for _, c := range []struct {
		name  string
		reply string
		sent  bool
		err   error
		late  []int
		want  [2]renewal.Outcome // of each batch that is not late
	}{
		{"answered", yes + "*1\r\n:0\r\n", true, nil, nil, [2]renewal.Outcome{renewal.Renewed, renewal.Gone}},
		{"one has moved", "-MOVED 7 127.0.0.1:1\r\n" + yes, true, nil, []int{0},
			[2]renewal.Outcome{1: renewal.Renewed}},
		{"one is on its way", yes + "-ASK 7 127.0.0.1:1\r\n", true, nil, []int{1}, [2]renewal.Outcome{renewal.Renewed}},
		{"no such script", strings.Repeat("-NOSCRIPT no\r\n", 2), true, nil, []int{0, 1}, [2]renewal.Outcome{}},
		{"not served", "-CLUSTERDOWN no\r\n" + yes, true, nil, nil,
			[2]renewal.Outcome{renewal.Unknown, renewal.Renewed}},
		{"not sent", "", false, broken, []int{0, 1}, [2]renewal.Outcome{}},
		{"sent and lost", "", true, broken, nil, [2]renewal.Outcome{}},
		{"a reply too few", yes, true, nil, nil, [2]renewal.Outcome{renewal.Renewed}},
		{"no replies of Redis", "what\r\n" + yes, true, nil, nil, [2]renewal.Outcome{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &store{Service: &Service{identity: newIdentity(),
				redis: &script.Client{SendMany: func(_ time.Time, _, _, n int, _, dst []byte) ([]byte, bool, error) {
					if n != 2 {
						t.Errorf("got %d commands, want 2", n)
					}
					return append(dst, c.reply...), c.sent, c.err
				}}}}
			batches := []renewal.Batch{plainBatch(s.Service, 1), plainBatch(s.Service, 1)}
			out := [][]renewal.Outcome{make([]renewal.Outcome, 1), make([]renewal.Outcome, 1)}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if late := s.renewDirect(ctx, batches, out); !slices.Equal(late, c.late) {
				t.Errorf("late: got %v, want %v", late, c.late)
			}
			for i, outcomes := range out {
				if slices.Contains(c.late, i) {
					continue
				}
				if len(outcomes) != 1 || outcomes[0] != c.want[i] {
					t.Errorf("batch %d: got %v, want %v", i, outcomes, c.want[i])
				}
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
			wires := s.redis.SendMany
			s.redis.SendMany = func(until time.Time, db, slot, n int, commands, dst []byte) ([]byte, bool, error) {
				reply, sent, err := wires(until, db, slot, n, commands, dst)
				if err == nil && !bytes.Contains(reply, []byte("-")) {
					wired.Add(1)
				}
				return reply, sent, err
			}
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
	s := leash(t, rdb, Config{WatchdogTimeout: 300 * time.Millisecond}, func(s *Service) {
		s.redis.SendMany = func(_ time.Time, _, _, _ int, _, dst []byte) ([]byte, bool, error) {
			return dst, false, errors.New("no link")
		}
	})
	a := connect(t, s)
	for range 9 {
		a.token(newKey())
	}
	eventually(t, 20*time.Second, "the holds are renewed", func() bool { return s.watchdog.Stats.Renewals.Load() > 50 })
	if n := astray.Load(); n > 0 {
		t.Errorf("%d renewals went to a wrong node first", n)
	}
}
