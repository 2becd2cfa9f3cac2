package release

import (
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
)

// WriteTombstone writes in the background how h ended, for other Leashes. It also wakes them,
// because a hand-over publishes nothing on the lock's channel. It does not block.
func (r *Releaser) WriteTombstone(h *hold.Hold, text string) {
	keep := 2 * max(h.Details().TTL, r.Holds.TTL)
	r.Tasks.Spawn(func() {
		event.WriteTombstone(r.Redis, h.Ref(), text, keep, h.Mode().Channel(h.Key()))
	})
}

// AnswerLateWatcher writes the tombstone of a hold that ended before somebody asked, if its end is
// still known, and wakes who asked. It does not block.
func (r *Releaser) AnswerLateWatcher(token int64, carrier string) {
	if e, ok := r.Holds.Ends.Find(token, carrier); ok {
		r.Tasks.Spawn(func() {
			event.WriteTombstone(r.Redis, e.Hold, e.Text, 2*r.Holds.TTL, e.Mode.Channel(e.Hold.Lock.Key))
		})
	}
}
