package lockcmd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
	"leash/renewal"
)

// store is Redis for the watchdog.
type store struct {
	*Service
	buffers sync.Pool // of *renewalBuffer
}

// Node implements renewal.Store. Each database has its own node name, because a connection is for
// one database.
func (s *store) Node(db, slot int) string {
	c, ok := s.redis.Redis.(*redis.ClusterClient)
	switch {
	case !ok:
		return strconv.Itoa(db)
	case s.redis.NodeAddr != nil:
		return s.redis.NodeAddr(slot)
	}
	// No I/O, because the topology is known.
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	node, err := c.MasterForKey(ctx, script.SlotKey(slot))
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// Renew implements renewal.Store with one script call a batch.
func (s *store) Renew(ctx context.Context, _ string, batches []renewal.Batch, out [][]renewal.Outcome) {
	if len(batches) == 0 {
		return
	}
	began := time.Now()
	left := s.renewDirect(ctx, batches, out)
	left = s.renewByClient(ctx, "EVALSHA", batches, out, left)
	s.renewByClient(ctx, "EVAL", batches, out, left)
	s.explainGone(ctx, batches, out)
	s.repair(ctx, batches, out, began)
}

// renewDirect renews batches by SendScripts. It returns the indexes of those that Redis certainly
// did not renew, for the client.
func (s *store) renewDirect(ctx context.Context, batches []renewal.Batch, out [][]renewal.Outcome) (left []int) {
	until, ok := ctx.Deadline()
	if s.redis.SendMany == nil || !ok {
		return allIndexes(batches)
	}
	buf := s.newBuffer()
	defer s.freeBuffer(buf)
	for _, b := range batches {
		buf.appendRenewal(b)
	}
	sent := time.Now()
	text, written, err := s.redis.SendMany(until, batches[0].DB, batches[0].Slot, len(batches), buf.commands,
		buf.replies)
	buf.replies = text
	if err != nil && !written && ctx.Err() == nil {
		return allIndexes(batches)
	}
	for i, b := range batches {
		var said []int64
		failed := err
		if err == nil {
			said, text, failed = buf.nextReply(text)
		}
		if failed != nil && notRunHere(failed) {
			left = append(left, i)
			continue
		}
		if errors.Is(failed, script.ErrReply) || failed == nil && len(said) != len(b.Holds) {
			s.redis.DropConnection(b.DB, b.Slot)
		}
		if !s.outcomes(ctx, b, said, failed, sent, out[i]) {
			out[i] = nil
		}
	}
	return left
}

func allIndexes(batches []renewal.Batch) []int {
	list := make([]int, len(batches))
	for i := range list {
		list[i] = i
	}
	return list
}

// notRunHere reports whether a script did not run but may run on another node or with its text.
func notRunHere(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") ||
		redis.HasErrorPrefix(err, "NOSCRIPT")
}

// renewByClient renews some of the batches by the client. It returns those whose script Redis does
// not know.
func (s *store) renewByClient(ctx context.Context, verb string, batches []renewal.Batch, out [][]renewal.Outcome,
	some []int) (left []int) {
	if len(some) == 0 {
		return nil
	}
	sent := time.Now()
	pipe := s.redis.Database(batches[0].DB).Pipeline()
	cmds := make([]script.Once, len(some))
	for k, i := range some {
		m := batches[i].Holds[0].Keeper.(*hold).mode()
		keys, args := renewalArgs(batches[i])
		cmds[k] = m.Renew.Command(ctx, verb, keys, args)
		pipe.Process(ctx, cmds[k])
	}
	pipe.Exec(ctx) // each command has its own error
	for k, i := range some {
		reply, err := batches[i].Holds[0].Keeper.(*hold).mode().Renew.Checked(cmds[k].Result())
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			left = append(left, i)
			continue
		}
		if !s.outcomes(ctx, batches[i], script.IntegersOf(reply), err, sent, out[i]) {
			out[i] = nil
		}
	}
	return left
}

// outcomes writes a batch's reply to out. It returns false when Redis refused the whole batch. The
// reply also has the time left of leases, which an EXTEND anywhere may have changed.
func (s *store) outcomes(ctx context.Context, b renewal.Batch, said []int64, err error, sent time.Time,
	out []renewal.Outcome) (ok bool) {
	if err == nil && len(said) != len(out) {
		err = script.ErrShape
	}
	if err != nil {
		s.redis.RefreshTopologyAfter(script.Judge(err))
	}
	several := b.Holds[0].Keeper.(*hold).mode().RenewKey != nil
	var answer redis.Error
	switch {
	case err == nil:
	case errors.As(err, &answer) && several && script.Migrates(answer):
		s.renewPerKey(ctx, b, out, func(int) bool { return true })
		return true
	case errors.As(err, &answer) && (script.Judge(err) == script.Answered || script.Migrates(answer)):
		return false
	default:
		// Nothing is known. Asking hold by hold would add load that Redis does not take now.
		return true
	}
	if several && slices.Contains(said, -1) {
		s.renewPerKey(ctx, b, out, func(i int) bool { return i < len(said) && said[i] == -1 })
	}
	for i, n := range said {
		switch {
		case i >= len(out):
		case n == 1:
			out[i] = renewal.Renewed
		case n > 1:
			out[i] = renewal.Renewed
			h := b.Holds[i].Keeper.(*hold)
			if !b.Lease && h.mode() == script.Read {
				h.adjustPace(script.Millis(n-1), b)
				// otherwise it is about to be corrected
			} else if !s.mayBeOlder(ctx, h, script.Millis(n-1), sent) {
				s.watchdog.ReportLeft(b.Holds[i], script.Millis(n-1), sent)
			}
		case n == 0:
			out[i] = renewal.Gone
		}
	}
	return true
}
