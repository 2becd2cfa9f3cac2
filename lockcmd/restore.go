package lockcmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/failover"
	"leash/lockcmd/script"
	"leash/renewal"
)

// A hold that a new master lacks, in that master's grace period, was forgotten there. It is written
// back as it was. The hold's requests are locked during that, so no release of it is in progress.

// errRestored is the error for a request during which the hold was restored. The request may be
// sent again.
var errRestored = fmt.Errorf("%w: the hold had to be put back", script.ErrRefused)

// Another Leash may be about to restore a hold on a new master. seek looks for it that often, with
// that pause.
const (
	maxSeeks  = 16
	seekPause = 100 * time.Millisecond
)

// seek reads a lock and finds the hold that the options mean. If its master is in the grace period
// and may lack the hold, seek waits for it.
func (s *Service) seek(lock lockID, o options, until time.Time) (info script.Inspection, f script.Hold, ok bool,
	err error) {
	for left := s.maxSeeks - 1; ; left-- {
		info, err = s.redis.Inspect(lock.inRedis(), until)
		f, ok = o.find(info)
		if err != nil || ok || left <= 0 || o.endedBefore(info) || s.graces.Left(lock.key) <= 0 {
			return info, f, ok, err
		}
		if time.Until(until) < 2*seekPause || s.redis.StoppedWithin(seekPause) {
			return info, f, ok, err
		}
	}
}

// Answers of the restore scripts. With the negative ones nothing was done.
const (
	alreadyThere = 2  // the master has it
	restored     = 1  // it was written back
	heldByOther  = 0  // somebody else has the lock
	otherMaster  = -1 // it runs on another master
	hasTombstone = -2 // the hold was ended or extended by another way
	// by the master's clock, which may have been set forward, the grace period is over
	graceOver = -3
)

// recordText is the hold's record for a request with that number.
func (h *hold) recordText(number int64) string {
	client := script.RecordClient(h.carrier.host.Client()) // first, because a host has its own mutex
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	x := h.readExtra()
	t := script.Terms{Flags: h.Flags, MaxHold: x.maxHold, Idle: x.idle}
	more := t.Ext()
	if x.moves > 0 {
		more = strings.TrimPrefix(more+",moves="+strconv.FormatInt(x.moves, 10), "-,")
	}
	since := h.token / 1000 // a token is Redis's clock at the grant in µs, or a bit more
	if h.mode() == script.Permit {
		since = time.Now().UnixMilli()
	}
	return script.RecordPrefix(h.token, h.carrier.name) + strconv.FormatInt(number, 10) + " " +
		strconv.FormatInt(h.token, 10) + " " +
		strconv.FormatInt(since, 10) + " " + strconv.FormatInt(h.ttl.Milliseconds(), 10) + " " + t.OptionLetters() +
		" " + more + " " +
		script.RecordID(x.lastID) + " " + client
}

// restoreTTL is how long the restored hold is to last. For a lease it is the time left.
func (h *hold) restoreTTL() time.Duration {
	until := h.carrier.service.watchdog.Until(&h.watch)
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.Lease && h.state != releasing {
		// the watchdog subtracts a margin
		return time.Until(until) + h.ttl/50 + 20*time.Millisecond
	}
	return h.ttl
}

// restoreRequest makes the call for holds of one slot and mode, whose requests the caller has
// locked.
func (s *Service) restoreRequest(m failover.Master, holds []*hold) *script.Call {
	call := &script.Call{Script: holds[0].mode().Restore, DB: int(holds[0].db),
		Args: script.Args(m.ReplID, m.ClockGraceEnd, s.cfg.TokenTTL.Milliseconds())}
	for _, h := range holds {
		number := h.carrier.requests.Add(1)
		h.carrier.mu.Lock()
		count := h.count
		h.carrier.mu.Unlock()
		call.Keys = append(call.Keys, h.mode().Keys(h.key(), h.owner())...)
		if h.mode() != script.Permit {
			call.Keys = append(call.Keys, script.TokenKey(h.key()))
		}
		call.Keys = append(call.Keys, script.TombstoneKey(h.key(), h.token, h.carrier.name))
		call.Args = append(call.Args, script.Args(h.owner(), int64(count), max(h.restoreTTL().Milliseconds(), 1),
			h.recordText(number))...)
	}
	return call
}

// restore restores one hold, whose requests the caller has locked, if its master is in the grace
// period. It returns Renewed if the master has it now, Moved if another carrier has it, else Gone.
// The error is script.ErrRefused: nobody knows.
func (s *Service) restore(h *hold, until time.Time) (renewal.Outcome, error) {
	if s.graces == nil || h.ownerInformed() || h.leaseOver() {
		return renewal.Gone, nil
	}
	m, ok := s.graces.MasterOf(h.key(), time.Now(), until)
	if !ok {
		return renewal.Unknown, script.ErrRefused
	}
	if !m.InGrace() {
		return renewal.Gone, nil
	}
	for range maxGraceRetries {
		call := s.restoreRequest(m, []*hold{h})
		reply, err := s.redis.Ask(call, until)
		if call.OutcomeUnknown {
			h.noteRestorePending()
		}
		if err != nil {
			return renewal.Unknown, errors.Join(script.ErrRefused, err)
		}
		how := s.restoreOutcome(m, h, reply, 0)
		if how != renewal.Unknown {
			return how, nil
		}
		if text := script.TextAt(reply, 0); text == "" || !s.moveAgain(h, text, until) {
			break
		}
	}
	return renewal.Unknown, script.ErrRefused
}

// restoreOutcome is what the i-th answer of a restore says of h. Unknown means that an earlier
// carrier has it, or that nothing was done.
func (s *Service) restoreOutcome(m failover.Master, h *hold, reply any, i int) renewal.Outcome {
	if r, ok := script.ParseRecord(script.TextAt(reply, i)); ok {
		// an equal number: moved without a count, or in the grace period
		if r.Moves() >= h.moves() {
			return renewal.Moved
		}
		return renewal.Unknown
	}
	codes := script.IntegersOf(reply)
	if i >= len(codes) {
		return renewal.Unknown
	}
	switch code := codes[i]; code {
	case restored, alreadyThere:
		s.stats.restored.Add(code & 1)
		s.graces.MarkRepaired(m.ReplID, &h.watch)
		return renewal.Renewed
	case otherMaster: // another master serves the slot now
		s.redis.RefreshTopologyAfter(script.Refused)
		return renewal.Unknown
	case hasTombstone:
		s.graces.MarkRepaired(m.ReplID, &h.watch)
	case graceOver:
		s.graces.StopRestores(m.ReplID)
	}
	return renewal.Gone
}

// moves is how often h was moved before it came here.
func (h *hold) moves() int64 {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.readExtra().moves
}

// moveAgain repeats the move of h from the earlier carrier in that record, because a new master
// lacks the move. The caller has locked the requests of h.
func (s *Service) moveAgain(h *hold, text string, until time.Time) bool {
	r, ok := script.ParseRecord(text)
	if !ok {
		return false
	}
	opts := acquireOptions{db: int(h.db), key: h.key(), mode: h.mode(), owner: h.owner(), token: h.token,
		ttl: s.cfg.WatchdogTimeout}
	m := h.carrier.newAcquisition(opts, nil).newMove(h.token, r.Carrier, r.Request)
	defer m.unlockOld()
	return m.send(until).kind == moved
}

// noteRestorePending notes that a restore of h may still arrive.
func (h *hold) noteRestorePending() {
	until := time.Now().Add(h.carrier.service.graces.Left(h.key()) + script.MaxAttempt)
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.writeExtra().restorePendingUntil = until
}

// repairBeforeRelease gives the master of h our state of h, if it is in the grace period and may
// have an older one. The caller has locked the requests of h. An error is script.ErrRefused.
func (s *Service) repairBeforeRelease(h *hold, until time.Time) error {
	if !s.graces.NeedsRepair(h.key(), &h.watch) {
		return nil
	}
	_, err := s.restore(h, until)
	return err
}

// refusedInGrace handles an attempt at key that this master may not grant. again is true when the
// master may grant now.
func (s *Service) refusedInGrace(key, replid string, until time.Time) (r result, again bool) {
	left, ok := s.graces.LeftAt(key, replid)
	if !ok {
		s.graces.Probe(key, time.Now(), until)
		left, ok = s.graces.LeftAt(key, replid)
	}
	switch {
	case !ok:
		s.redis.RefreshTopologyAfter(script.Refused)
		return result{kind: busy, text: msgRefused}, false
	case left > 0:
		return result{kind: taken, left: left}, false
	}
	return result{}, true
}
