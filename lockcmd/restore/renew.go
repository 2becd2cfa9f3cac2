package restore

import (
	"context"
	"strconv"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/proxy/slots"
	"leash/renewal"
)

// Node implements renewal.Store. Each database has its own node name, because a connection is for
// one database.
func (r *Restorer) Node(db, slot int) string {
	if !r.Redis.IsCluster {
		return strconv.Itoa(db)
	}
	return r.Redis.Links.NodeAddr(slots.Slot(slot))
}

// Renew implements renewal.Store with one script call a batch.
func (r *Restorer) Renew(ctx context.Context, _ string, batches []renewal.Batch, out [][]renewal.Outcome) {
	if len(batches) == 0 {
		return
	}
	began := time.Now()
	until, _ := ctx.Deadline()
	calls := make([]script.RenewBatch, len(batches))
	for i := range batches {
		b := &batches[i]
		holds := (*batchHolds)(b)
		calls[i] = script.RenewBatch{DB: b.DB, Slot: slots.Slot(b.Slot), Mode: holds.at(0).Mode(), Holds: holds}
		if !b.Lease {
			calls[i].Lasts = b.TTL
		}
	}
	r.Redis.RenewBatches(ctx, calls, func(i int, result script.RenewResult) {
		if result.Refused {
			out[i] = nil
			return
		}
		r.outcomes(batches[i], result, out[i], until)
	})
	r.explainGone(batches, out, until)
	r.repair(batches, out, began, until)
}

// batchHolds are the holds of a batch. It implements script.RenewedHolds.
type batchHolds renewal.Batch

func (b *batchHolds) at(i int) *hold.Hold { return b.Holds[i].Keeper.(*hold.Hold) }

// Len is how many holds there are.
func (b *batchHolds) Len() int { return len(b.Holds) }

// Hold names a hold.
func (b *batchHolds) Hold(i int) script.RenewedHold {
	h := b.at(i)
	return script.RenewedHold{Key: h.Key(), Token: h.Token, Carrier: h.Carrier.Name}
}

// AppendOwner appends the name of a hold's owner in Redis.
func (b *batchHolds) AppendOwner(i int, dst []byte) []byte { return b.at(i).AppendOwner(dst) }

// outcomes writes a batch's result to out. The result also has the time left of leases, which an
// EXTEND anywhere may have changed.
func (r *Restorer) outcomes(b renewal.Batch, result script.RenewResult, out []renewal.Outcome, until time.Time) {
	for i, reply := range result.Replies {
		switch {
		case reply.Gone():
			out[i] = renewal.Gone
		case reply.Held():
			out[i] = renewal.Renewed
			if left, known := reply.Left(); known {
				r.noteLeft(b, b.Holds[i], left, result.Sent, until)
			}
		}
	}
}

// noteLeft notes what a renewal or a check, sent at that time, says of the time left.
func (r *Restorer) noteLeft(b renewal.Batch, w *renewal.Hold, left time.Duration, sent, until time.Time) {
	h := w.Keeper.(*hold.Hold)
	if !b.Lease && h.Mode() == script.Read {
		h.AdjustPace(left, b.Every, b.TTL)
		return
	}
	if !r.mayBeOlder(h, left, sent, until) { // otherwise it is about to be corrected
		r.Holds.Watchdog.Correct(w, renewal.Until(sent, left), sent)
	}
}
