package lockcmd

import (
	"errors"
	"fmt"
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
func (s *Service) seek(lock script.Lock, o options, until time.Time) (info script.Inspection, f script.Hold, ok bool,
	err error) {
	for left := s.maxSeeks - 1; ; left-- {
		info, err = s.redis.Inspect(lock, until)
		f, ok = o.find(info)
		if err != nil || ok || left <= 0 || o.endedBefore(info) || s.graces.Left(lock.Key) <= 0 {
			return info, f, ok, err
		}
		if time.Until(until) < 2*seekPause || s.redis.StoppedWithin(seekPause) {
			return info, f, ok, err
		}
	}
}

// toRestore is the hold for a restore. The caller has locked its requests.
func (h *hold) toRestore() script.RestoredHold {
	until := h.carrier.service.watchdog.Until(&h.watch)
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	x, lasts := h.readExtra(), h.ttl
	if h.Lease && h.state != releasing {
		// the watchdog subtracts a margin
		lasts = time.Until(until) + h.ttl/50 + 20*time.Millisecond
	}
	return script.RestoredHold{
		Key: h.key(), Owner: h.owner(), Carrier: h.carrier.name, Token: h.token, Request: h.carrier.requests.Add(1),
		Count: int64(h.count), Lasts: lasts, TTL: h.ttl,
		Terms: script.Terms{Flags: h.Flags, MaxHold: x.maxHold, Idle: x.idle}, Moves: x.moves, LastID: x.lastID,
		Client: h.carrier.clientName(),
	}
}

// restoreArgs say how to restore holds of one slot and mode, whose requests the caller has locked.
func (s *Service) restoreArgs(m failover.Master, holds ...*hold) *script.RestoreArgs {
	args := &script.RestoreArgs{
		DB: int(holds[0].db), Mode: holds[0].mode(), Master: m.ReplID, GraceEnd: m.ClockGraceEnd,
		TokenTTL: s.cfg.TokenTTL,
	}
	for _, h := range holds {
		args.Holds = append(args.Holds, h.toRestore())
	}
	return args
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
		results, unknown, err := s.redis.Restore(s.restoreArgs(m, h), until)
		if unknown {
			h.noteRestorePending()
		}
		if err != nil {
			return renewal.Unknown, errors.Join(script.ErrRefused, err)
		}
		r := results[0]
		if how := s.restoreOutcome(m, h, r); how != renewal.Unknown {
			return how, nil
		}
		if r.Outcome != script.RestoreMoved || !s.moveAgain(h, r.Record, until) {
			break
		}
	}
	return renewal.Unknown, script.ErrRefused
}

// restoreOutcome is what a restore says of h. Unknown means that an earlier carrier has it, or that
// nothing was done.
func (s *Service) restoreOutcome(m failover.Master, h *hold, r script.RestoreResult) renewal.Outcome {
	switch r.Outcome {
	case script.RestoreMoved:
		// an equal number: moved without a count, or in the grace period
		if r.Record.Moves() >= h.moves() {
			return renewal.Moved
		}
		return renewal.Unknown
	case script.Restored:
		s.stats.restored.Add(1)
		fallthrough
	case script.RestoreAlreadyThere:
		s.graces.MarkRepaired(m.ReplID, &h.watch)
		return renewal.Renewed
	case script.RestoreOtherMaster:
		return renewal.Unknown
	case script.RestoreTombstone:
		s.graces.MarkRepaired(m.ReplID, &h.watch)
	case script.RestoreGraceOver:
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
func (s *Service) moveAgain(h *hold, r script.Record, until time.Time) bool {
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
