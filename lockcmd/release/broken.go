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
	if h.ForgetIfLeaseOver() { // as far as this Leash knows
		r.Tasks.Spawn(func() { r.reportExpired(h) })
		return
	}
	if !h.NoteRemoteWatch() {
		r.AnswerLateWatcher(h.Token, h.Carrier.Name)
	}
	h.Evict(renewal.ReasonBroken)
}

// reportPause is the pause between two looks at a lease that is about to end.
const reportPause = 10 * time.Millisecond

// reportExpired reports that a lease ended by itself, if it is gone before BREAK ends it.
func (r *Releaser) reportExpired(h *hold.Hold) {
	for until := time.Now().Add(BreakTimeout); time.Now().Before(until) && !r.Redis.StoppedWithin(reportPause); {
		info, err := r.Redis.Inspect(h.Lock(), until)
		if err != nil {
			continue
		}
		if f, ok := info.Find(h.Token); !ok || f.Record.Carrier != h.Carrier.Name {
			r.WriteTombstone(h, event.Released)
			return
		}
	}
}
