package release

import (
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/renewal"
)

// BreakTimeout is how long the Leash of a hold has to tell the holder and end the hold itself.
const BreakTimeout = time.Second

// ObeyBreak ends a hold after a break event, if Redis has the mark too, and reports in the
// tombstone how it ended. It blocks until Redis answers, at most until its deadline.
func (r *Releaser) ObeyBreak(h *hold.Hold) {
	text, err := r.Redis.Tombstone(h.Ref(), r.Redis.Deadline())
	if err != nil || text != event.Broken {
		return
	}
	if h.ForgetIfLeaseOver() { // there is nobody to tell
		return
	}
	if !h.NoteRemoteWatch() {
		r.AnswerLateWatcher(h.Token, h.Carrier.Name)
	}
	h.Evict(renewal.ReasonBroken)
}
