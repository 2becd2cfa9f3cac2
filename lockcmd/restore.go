package lockcmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"leash/renewal"
)

// A hold that is missing on a new master, while that is in grace, has been forgotten there: it is
// put back as it was. The hold's gate is ours when that is asked for, so no release of it is under
// way, and none can be overtaken.

// errRestored says that a hold was put back in the middle of a request about it, which may be sent
// again.
var errRestored = fmt.Errorf("%w: the hold had to be put back", errRefused)

// A new master may have forgotten a hold that another Leash is about to put back: it is looked for
// so often, so far apart.
const (
	maxSeeks  = 16
	seekPause = 100 * time.Millisecond
)

// seek reads a lock, and finds the hold there that the options mean. One that its master, in grace,
// may have forgotten is waited for.
func (s *Service) seek(lock lockID, o options, until time.Time) (info inspection, f found, ok bool, err error) {
	for left := s.maxSeeks - 1; ; left-- {
		info, err = s.inspect(lock, until)
		f, ok = info.find(o)
		if err != nil || ok || left <= 0 || info.excludes(o) || s.graces.left(lock.key) <= 0 {
			return info, f, ok, err
		}
		if time.Until(until) < 2*seekPause || s.stoppedWithin(seekPause) {
			return info, f, ok, err
		}
	}
}

// Answers of the scripts that put holds back.
const (
	alreadyThere = 2  // it was there
	restored     = 1  // it is there again
	heldByOther  = 0  // another one is there
	otherMaster  = -1 // nothing was done: it is another master by now
	hasTombstone = -2 // nothing was done: the hold was ended or extended by another way
	// nothing was done: by its own clock, which may have been set forward, it is in no grace any
	// more
	graceOver = -3
)

// recordText is the hold's record, under the number of the request that writes it.
func (h *hold) recordText(number int64) string {
	client := recordClient(h.carrier.host.Client()) // first: a host has a lock of its own
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	x := h.readExtra()
	t := holdTerms{holdFlags: h.holdFlags, maxHold: x.maxHold, idle: x.idle}
	more := t.ext()
	if x.moves > 0 {
		more = strings.TrimPrefix(more+",moves="+strconv.FormatInt(x.moves, 10), "-,")
	}
	since := h.token / 1000 // a token is Redis's clock in µs at the grant, or a little more
	if h.mode() == permit {
		since = time.Now().UnixMilli()
	}
	return recordPrefix(h.token, h.carrier.name) + strconv.FormatInt(number, 10) + " " + strconv.FormatInt(h.token, 10) + " " +
		strconv.FormatInt(since, 10) + " " + strconv.FormatInt(h.ttl.Milliseconds(), 10) + " " + t.optionLetters() + " " + more + " " +
		recordID(x.lastID) + " " + client
}

// restoreTTL is for how long the hold is to last where it is put back: a lease for what is left of it.
func (h *hold) restoreTTL() time.Duration {
	until := h.carrier.service.watchdog.Until(&h.watch)
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.lease && h.state != releasing {
		// the watchdog counts with a margin
		return time.Until(until) + h.ttl/50 + 20*time.Millisecond
	}
	return h.ttl
}

// restoreRequest is for holds of one slot and mode, whose gates are ours.
func (s *Service) restoreRequest(m masterState, holds []*hold) *scriptCall {
	call := &scriptCall{script: holds[0].mode().restore, db: int(holds[0].db), args: scriptArgs(m.replid, m.clockGraceEnd, s.cfg.TokenTTL.Milliseconds())}
	for _, h := range holds {
		number := h.carrier.requests.Add(1)
		h.carrier.mu.Lock()
		count := h.count
		h.carrier.mu.Unlock()
		call.keys = append(call.keys, h.mode().keys(h.key(), h.owner())...)
		if h.mode() != permit {
			call.keys = append(call.keys, tokenKey(h.key()))
		}
		call.keys = append(call.keys, tombstoneKey(h.key(), h.token, h.carrier.name))
		call.args = append(call.args, scriptArgs(h.owner(), int64(count), max(h.restoreTTL().Milliseconds(), 1), h.recordText(number))...)
	}
	return call
}

// restore puts one hold back, whose gate is ours, if its master is in grace. It is Renewed if it is
// there now, Moved if it hangs on another carrier since, else Gone; the error, errRefused, is that
// of not knowing.
func (s *Service) restore(h *hold, until time.Time) (renewal.Outcome, error) {
	if s.graces == nil || h.ownerInformed() || h.leaseOver() {
		return renewal.Gone, nil
	}
	m, ok := s.graces.masterOf(h.key(), time.Now(), until)
	if !ok {
		return renewal.Unknown, errRefused
	}
	if !m.inGrace() {
		return renewal.Gone, nil
	}
	for range maxGraceRetries {
		call := s.restoreRequest(m, []*hold{h})
		reply, err := s.ask(call, until)
		if call.outcomeUnknown {
			h.noteRestorePending()
		}
		if err != nil {
			return renewal.Unknown, errors.Join(errRefused, err)
		}
		how := s.restoreOutcome(m, h, reply, 0)
		if how != renewal.Unknown {
			return how, nil
		}
		if text := textAt(reply, 0); text == "" || !s.moveAgain(h, text, until) {
			break
		}
	}
	return renewal.Unknown, errRefused
}

// restoreOutcome is what the i-th answer of a script that puts holds back says of h: Unknown if it hangs
// on an earlier carrier, or nothing was done.
func (s *Service) restoreOutcome(m masterState, h *hold, reply any, i int) renewal.Outcome {
	if r, ok := parseRecord(textAt(reply, i)); ok {
		if r.moves() >= h.moves() { // with as many, it was moved on without a count, or in grace
			return renewal.Moved
		}
		return renewal.Unknown
	}
	codes := integersOf(reply)
	if i >= len(codes) {
		return renewal.Unknown
	}
	switch code := codes[i]; code {
	case restored, alreadyThere:
		s.stats.restored.Add(code & 1)
		s.graces.markRepaired(m.replid, h)
		return renewal.Renewed
	case otherMaster: // the slot is served by another master than the one that was looked at
		s.refreshTopologyAfter(refused)
		return renewal.Unknown
	case hasTombstone:
		s.graces.markRepaired(m.replid, h)
	case graceOver:
		s.graces.stopRestores(m.replid)
	}
	return renewal.Gone
}

// moves is how often h was moved before it came here.
func (h *hold) moves() int64 {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.readExtra().moves
}

// moveAgain moves h, whose gate is ours, once more from the earlier carrier on which it hangs by that
// record: a new master has forgotten the move.
func (s *Service) moveAgain(h *hold, text string, until time.Time) bool {
	r, ok := parseRecord(text)
	if !ok {
		return false
	}
	opts := acquireOptions{db: int(h.db), key: h.key(), mode: h.mode(), owner: h.owner(), token: h.token, ttl: s.cfg.WatchdogTimeout}
	m := h.carrier.newAcquisition(opts, nil).newMove(h.token, r.carrier, r.request)
	defer m.unlockOld()
	return m.send(until).kind == moved
}

// noteRestorePending says that a request which puts h back may still be on its way.
func (h *hold) noteRestorePending() {
	until := time.Now().Add(h.carrier.service.graces.left(h.key()) + maxAttempt)
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.writeExtra().restorePendingUntil = until
}

// repairBeforeRelease makes the master of h, whose gate is ours, know of it what we do, if it is in grace and
// may have forgotten some of it. An error is errRefused.
func (s *Service) repairBeforeRelease(h *hold, until time.Time) error {
	if !s.graces.needsRepair(h) {
		return nil
	}
	_, err := s.restore(h, until)
	return err
}
