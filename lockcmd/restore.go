package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"leash/renewal"
)

// A hold that is missing on a new master, while that is in grace, has been forgotten there: it is put back as it was. The
// hold's gate is ours when that is asked for, so no release of it is under way, and none can be overtaken.

// errRestored says that a hold was put back in the middle of a request about it, which may be sent again.
var errRestored = fmt.Errorf("%w: the hold had to be put back", errRefused)

// restorePatience is how long to wait, some times, for another Leash to put a hold back.
const restorePatience = 100 * time.Millisecond

// Answers of the scripts that put holds back.
const (
	present   = 2  // it was there
	restored  = 1  // it is there again
	displaced = 0  // another one is there
	undecided = -1 // nothing was done: it is another master by now, or in no grace
	buried    = -2 // nothing was done: the hold was ended or extended by another way
)

// recordText is the hold's record, under the number of the request that writes it.
func (h *hold) recordText(number int64) string {
	client := recordClient(h.carrier.host.Client()) // first: a host has a lock of its own
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	x := h.rare()
	t := terms{manner: h.manner, max: x.max, idle: x.idle}
	since := h.token / 1000 // a token is Redis's clock in µs at the grant, or a little more
	if h.mode == permit {
		since = time.Now().UnixMilli()
	}
	return mark(h.token, h.carrier.name) + strconv.FormatInt(number, 10) + " " + strconv.FormatInt(h.token, 10) + " " +
		strconv.FormatInt(since, 10) + " " + strconv.FormatInt(h.ttl.Milliseconds(), 10) + " " + t.options() + " " + t.more() + " " +
		recordID(x.last) + " " + client
}

// lasting is for how long the hold is to last where it is put back: a lease for what is left of it.
func (h *hold) lasting() time.Duration {
	until := h.carrier.service.watchdog.Until(&h.watch)
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.lease && !until.IsZero() { // else it is being released
		return time.Until(until) + h.ttl/50 + 20*time.Millisecond // the watchdog counts with a margin
	}
	return h.ttl
}

// restoreRequest is for holds of one slot and mode, whose gates are ours.
func (s *Service) restoreRequest(m incumbent, holds []*hold) *request {
	r := &request{script: holds[0].mode.restore, db: holds[0].id.db, args: []any{m.replid, m.until, s.cfg.TokenTTL.Milliseconds()}}
	for _, h := range holds {
		number := h.carrier.requests.Add(1)
		h.carrier.mu.Lock()
		count := h.count
		h.carrier.mu.Unlock()
		r.keys = append(r.keys, h.mode.keys(h.id.key, h.owner())...)
		if h.mode != permit {
			r.keys = append(r.keys, tokenKey(h.id.key))
		}
		r.keys = append(r.keys, tombstoneKey(h.id.key, h.token, h.carrier.name))
		r.args = append(r.args, h.owner(), int64(count), max(h.lasting().Milliseconds(), 1), h.recordText(number))
	}
	return r
}

// restore puts one hold back, whose gate is ours, if its master is in grace. It reports whether the hold is there now; the error, errRefused,
// is that of not knowing.
func (s *Service) restore(h *hold, until time.Time) (there bool, err error) {
	if s.graces == nil || h.ended() {
		return false, nil
	}
	m, ok := s.graces.incumbent(h.id.key, time.Now(), until)
	if !ok {
		return false, errRefused
	}
	if !m.graced() {
		return false, nil
	}
	reply, err := s.ask(s.restoreRequest(m, []*hold{h}), until)
	if err != nil {
		return false, errors.Join(errRefused, err)
	}
	switch numbers(reply)[0] {
	case restored:
		s.stats.restored.Add(1)
		s.graces.knows(m.replid, h)
		return true, nil
	case present:
		s.graces.knows(m.replid, h)
		return true, nil
	case undecided:
		return false, errRefused
	}
	return false, nil
}

// reassert makes the master of h, whose gate is ours, know of it what we do, if it is in grace and may have forgotten some of it. An error
// is errRefused.
func (s *Service) reassert(h *hold, until time.Time) error {
	if !s.graces.owes(h) {
		return nil
	}
	_, err := s.restore(h, until)
	return err
}

// restore puts back what a round has not found, where a master is in grace, and puts right once what it has: it is renewed then. While that is
// not known, nothing is known of what is missing.
func (s *store) restore(ctx context.Context, batches []renewal.Batch, out [][]renewal.Outcome, sent time.Time) {
	if s.graces == nil {
		return
	}
	for i, outcomes := range out {
		var some []int
		for j, o := range outcomes {
			if o == renewal.Gone || o == renewal.Renewed && s.graces.owes(batches[i].Holds[j].Keeper.(*hold)) {
				some = append(some, j)
			}
		}
		if len(some) > 0 {
			s.restoreSome(ctx, batches[i].Holds, some, out[i], sent)
		}
	}
}

// restoreSome does so for a batch, whose holds have one master.
func (s *store) restoreSome(ctx context.Context, all []*renewal.Hold, some []int, out []renewal.Outcome, sent time.Time) {
	deadline, _ := ctx.Deadline()
	m, ok := s.graces.incumbent(all[some[0]].Keeper.(*hold).id.key, sent, deadline)
	if ok && !m.graced() {
		return // what is missing is lost
	}
	var places []int
	var holds []*hold
	for _, j := range some {
		if out[j] == renewal.Gone {
			out[j] = renewal.Unknown
		}
		if h := all[j].Keeper.(*hold); ok && h.tryOpen() {
			defer h.close()
			places, holds = append(places, j), append(holds, h)
		}
	}
	if len(holds) == 0 {
		return
	}
	r := s.restoreRequest(m, holds)
	reply, err := r.script.run(ctx, s.database(r.db), r.keys, r.args)
	if err != nil {
		s.suspect(judge(err))
		return
	}
	for k, code := range numbers(reply) {
		if k < len(places) {
			out[places[k]] = s.putRight(m, holds[k], code, out[places[k]])
		}
	}
}

// putRight is what is known of a hold by the answer, which before was that.
func (s *store) putRight(m incumbent, h *hold, code int64, before renewal.Outcome) renewal.Outcome {
	switch code {
	case restored, present:
		s.stats.restored.Add(code & 1)
		s.graces.knows(m.replid, h)
		return renewal.Renewed
	case displaced:
		return renewal.Gone
	case buried:
		s.graces.knows(m.replid, h)
		if before == renewal.Renewed { // it was extended by another way, and lasts as long as the master says
			s.watchdog.Check(&h.watch)
		}
	}
	return before
}

// tryOpen takes the gate of a hold if it is free, and nothing else is being done about the hold.
func (h *hold) tryOpen() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.busy || h.state != held {
		return false
	}
	h.busy = true
	return true
}

// older reports whether a look, sent then, that found so much left of a lease may have found what a new master has in an older state. One
// that takes nothing away is believed; else its master may be new, and not be known yet.
func (s *store) older(ctx context.Context, h *hold, left time.Duration, sent time.Time) bool {
	switch {
	case s.graces == nil:
		return false
	case s.graces.owes(h):
		return true
	case !sent.Add(left).Before(s.watchdog.Until(&h.watch)):
		return false
	}
	deadline, _ := ctx.Deadline()
	_, ok := s.graces.incumbent(h.id.key, sent, deadline)
	return !ok || s.graces.owes(h)
}
