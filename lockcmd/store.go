package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/renewal"
)

// store is Redis as the watchdog sees it.
type store struct{ *Service }

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
	errs, replies := s.pipeline(ctx, "EVALSHA", batches)
	out := make([][]renewal.Outcome, len(batches))
	var missing []int
	for i, b := range batches {
		if redis.HasErrorPrefix(errs[i], "NOSCRIPT") {
			missing = append(missing, i)
			continue
		}
		out[i] = outcomes(b, replies[i], errs[i])
	}
	if len(missing) > 0 {
		again := make([]renewal.Batch, len(missing))
		for j, i := range missing {
			again[j] = batches[i]
		}
		errs, replies = s.pipeline(ctx, "EVAL", again)
		for j, i := range missing {
			out[i] = outcomes(batches[i], replies[j], errs[j])
		}
	}
	s.explain(ctx, batches, out)
	return out
}

func (s *store) pipeline(ctx context.Context, verb string, batches []renewal.Batch) (errs []error, replies []any) {
	pipe := s.database(batches[0].DB).Pipeline()
	cmds := make([]once, len(batches))
	for i, b := range batches {
		ttl := b.TTL.Milliseconds()
		if b.Lease {
			ttl = 0
		}
		var keys []string
		args := []any{ttl}
		for _, w := range b.Holds {
			h := w.Keeper.(*hold)
			keys = append(keys, h.mode.keys(h.id.key, h.owner)...)
			args = append(args, h.owner, mark(h.token, h.carrier.name))
		}
		cmds[i] = modes[b.Kind].renew.command(ctx, verb, keys, args)
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

// outcomes reads a batch's reply; nil when Redis refused the batch as a whole.
func outcomes(b renewal.Batch, reply any, err error) []renewal.Outcome {
	out := make([]renewal.Outcome, len(b.Holds))
	var answer redis.Error
	if errors.As(err, &answer) {
		return nil
	}
	if err != nil {
		return out
	}
	for i, n := range numbers(reply) {
		switch {
		case i >= len(out):
		case n == 1:
			out[i] = renewal.Renewed
		case n == 0:
			out[i] = renewal.Gone
		}
	}
	return out
}

// explain looks for the tombstones of holds that are gone. While it cannot, nothing is known of them.
func (s *store) explain(ctx context.Context, batches []renewal.Batch, out [][]renewal.Outcome) {
	type place struct{ batch, hold int }
	var places []place
	var cmds []*redis.StringCmd
	pipe := s.database(batches[0].DB).Pipeline()
	for i, outcomes := range out {
		for j, o := range outcomes {
			if o != renewal.Gone {
				continue
			}
			h := batches[i].Holds[j].Keeper.(*hold)
			places = append(places, place{i, j})
			cmds = append(cmds, pipe.Get(ctx, tombstoneKey(h.id.key, h.token, h.carrier.name)))
		}
	}
	if len(cmds) == 0 {
		return
	}
	pipe.Exec(ctx)
	for i, p := range places {
		text, err := cmds[i].Result()
		var answer redis.Error
		switch {
		case err == nil, errors.Is(err, redis.Nil):
			out[p.batch][p.hold] = epitaph(text)
		case errors.As(err, &answer) && judge(err) == answered: // not a string: no tombstone of ours
		default:
			out[p.batch][p.hold] = renewal.Unknown
		}
	}
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
