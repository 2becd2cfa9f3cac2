package lockcmd

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// store is Redis for the watchdog.
type store struct{ *Service }

// Node implements renewal.Store. Each database has its own node name, because a connection is for
// one database.
func (s *store) Node(db, slot int) string {
	c, ok := s.redis.Redis.(*redis.ClusterClient)
	switch {
	case !ok:
		return strconv.Itoa(db)
	case s.redis.Links != nil:
		return s.redis.Links.NodeAddr(slot)
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
	calls := make([]script.RenewBatch, len(batches))
	for i := range batches {
		calls[i] = renewBatch(&batches[i])
	}
	s.redis.RenewBatches(ctx, calls, func(i int, r script.RenewResult) {
		if r.Refused {
			out[i] = nil
			return
		}
		s.outcomes(ctx, batches[i], r, out[i])
	})
	s.explainGone(ctx, batches, out)
	s.repair(ctx, batches, out, began)
}

// renewBatch is b for a script.
func renewBatch(b *renewal.Batch) script.RenewBatch {
	lasts := b.TTL
	if b.Lease {
		lasts = 0
	}
	holds := (*batchHolds)(b)
	return script.RenewBatch{DB: b.DB, Slot: b.Slot, Mode: holds.at(0).Mode(), Lasts: lasts, Holds: holds}
}

// batchHolds are the holds of a batch. It implements script.RenewedHolds.
type batchHolds renewal.Batch

func (b *batchHolds) at(i int) *hold.Hold { return b.Holds[i].Keeper.(*hold.Hold) }

// Len is how many holds there are.
func (b *batchHolds) Len() int { return len(b.Holds) }

// Hold names a hold.
func (b *batchHolds) Hold(i int) (key string, token int64, carrier string) {
	h := b.at(i)
	return h.Key(), h.Token, h.Carrier.Name
}

// AppendOwner appends the name of a hold's owner in Redis.
func (b *batchHolds) AppendOwner(i int, dst []byte) []byte { return b.at(i).AppendOwner(dst) }

// outcomes writes a batch's result to out. The result also has the time left of leases, which an
// EXTEND anywhere may have changed.
func (s *store) outcomes(ctx context.Context, b renewal.Batch, r script.RenewResult, out []renewal.Outcome) {
	for i, reply := range r.Replies {
		switch {
		case reply.Gone():
			out[i] = renewal.Gone
		case reply.Held():
			out[i] = renewal.Renewed
			if left, known := reply.Left(); known {
				s.noteLeft(ctx, b, b.Holds[i], left, r.Sent)
			}
		}
	}
}

// noteLeft notes what a renewal or a check, sent at that time, says of the time left.
func (s *store) noteLeft(ctx context.Context, b renewal.Batch, w *renewal.Hold, left time.Duration, sent time.Time) {
	h := w.Keeper.(*hold.Hold)
	if !b.Lease && h.Mode() == script.Read {
		h.AdjustPace(left, b.Every, b.TTL)
		return
	}
	if !s.mayBeOlder(ctx, h, left, sent) { // otherwise it is about to be corrected
		s.watchdog.ReportLeft(w, left, sent)
	}
}
