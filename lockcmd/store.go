package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/renewal"
)

// store is Redis as the watchdog sees it.
type store struct {
	*Service
	papers sync.Pool // of *paper
}

// Node implements renewal.Store. Each database has a line of its own, since a connection is in one of them.
func (s *store) Node(db, slot int) string {
	c, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return strconv.Itoa(db)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond) // the topology is at hand
	defer cancel()
	node, err := c.MasterForKey(ctx, slotKey(slot))
	if err != nil {
		return "?"
	}
	return node.Options().Addr
}

// Renew implements renewal.Store: one pipeline, one script a batch.
func (s *store) Renew(ctx context.Context, _ string, batches []renewal.Batch) [][]renewal.Outcome {
	if len(batches) == 0 {
		return nil
	}
	began := time.Now()
	sent := began
	errs, replies := s.pipeline(ctx, "EVALSHA", batches)
	out := make([][]renewal.Outcome, len(batches))
	var missing []int
	for i, b := range batches {
		if redis.HasErrorPrefix(errs[i], "NOSCRIPT") {
			missing = append(missing, i)
			continue
		}
		out[i] = s.outcomes(ctx, b, replies[i], errs[i], sent)
	}
	if len(missing) > 0 {
		again := make([]renewal.Batch, len(missing))
		for j, i := range missing {
			again[j] = batches[i]
		}
		sent = time.Now()
		errs, replies = s.pipeline(ctx, "EVAL", again)
		for j, i := range missing {
			out[i] = s.outcomes(ctx, batches[i], replies[j], errs[j], sent)
		}
	}
	s.explain(ctx, batches, out)
	s.mend(ctx, batches, out, began)
	return out
}

func (s *store) pipeline(ctx context.Context, verb string, batches []renewal.Batch) (errs []error, replies []any) {
	p, _ := s.papers.Get().(*paper)
	if p == nil {
		p = &paper{}
	}
	defer s.papers.Put(p)
	defer p.clear()
	pipe := s.database(batches[0].DB).Pipeline()
	cmds := make([]once, len(batches))
	for i, b := range batches {
		cmds[i] = p.keepAlive(ctx, verb, b)
		pipe.Process(ctx, cmds[i])
	}
	pipe.Exec(ctx) // each command has its own error
	errs, replies = make([]error, len(batches)), make([]any, len(batches))
	for i, cmd := range cmds {
		if replies[i], errs[i] = cmd.Result(); errs[i] != nil {
			s.suspect(judge(errs[i]))
		}
	}
	return errs, replies
}

// outcomes reads a batch's reply; nil when Redis refused the batch as a whole. How long leases last may have been changed from anywhere
// (EXTEND): the watchdog learns it here.
func (s *store) outcomes(ctx context.Context, b renewal.Batch, reply any, err error, sent time.Time) []renewal.Outcome {
	out := make([]renewal.Outcome, len(b.Holds))
	several := b.Holds[0].Keeper.(*hold).mode().keep != nil
	var answer redis.Error
	switch {
	case errors.As(err, &answer) && several && migrates(answer):
		s.keepApart(ctx, b, out, func(int) bool { return true })
		return out
	case errors.As(err, &answer) && (judge(err) == answered || migrates(answer)):
		return nil
	case err != nil: // nothing is known of any of them, and asking one by one would only be more of what Redis does not take now
		return out
	}
	said := numbers(reply)
	if several && slices.Contains(said, -1) {
		s.keepApart(ctx, b, out, func(i int) bool { return i < len(said) && said[i] == -1 })
	}
	for i, n := range said {
		switch {
		case i >= len(out):
		case n >= 1:
			out[i] = renewal.Renewed
			h := b.Holds[i].Keeper.(*hold)
			if n > 1 && !b.Lease && h.mode() == read {
				h.sees(millis(n-1), b)
			} else if n > 1 && !s.older(ctx, h, millis(n-1), sent) { // else it is to be put right
				s.watchdog.Correct(b.Holds[i], renewal.Until(sent, millis(n-1)), sent)
			}
		case n == 0:
			out[i] = renewal.Gone
		}
	}
	return out
}

// slotKey is some key of a slot.
func slotKey(slot int) string { return slotKeys()[slot] }

var slotKeys = sync.OnceValue(func() []string {
	keys := make([]string, slots)
	for n, missing := 0, slots; missing > 0; n++ {
		key := fmt.Sprintf("{%d}", n)
		if s := slotOf(key); keys[s] == "" {
			keys[s] = key
			missing--
		}
	}
	return keys
})
