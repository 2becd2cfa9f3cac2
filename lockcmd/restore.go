package lockcmd

import (
	"errors"
	"fmt"
	"time"

	"leash/lockcmd/failover"
	"leash/lockcmd/hold"
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

// restoreArgs say how to restore holds of one slot and mode, whose requests the caller has locked.
func (s *Service) restoreArgs(m failover.Master, holds ...*hold.Hold) *script.RestoreArgs {
	args := &script.RestoreArgs{
		DB: holds[0].Lock().DB, Mode: holds[0].Mode(), Master: m.ReplID, GraceEnd: m.ClockGraceEnd,
		TokenTTL: s.cfg.TokenTTL,
	}
	for _, h := range holds {
		args.Holds = append(args.Holds, h.ToRestore())
	}
	return args
}

// restore restores one hold, whose requests the caller has locked, if its master is in the grace
// period. It returns Renewed if the master has it now, Moved if another carrier has it, else Gone.
// The error is script.ErrRefused: nobody knows.
func (s *Service) restore(h *hold.Hold, until time.Time) (renewal.Outcome, error) {
	if s.graces == nil || h.OwnerInformed() || h.LeaseOver() {
		return renewal.Gone, nil
	}
	m, ok := s.graces.MasterOf(h.Key(), time.Now(), until)
	if !ok {
		return renewal.Unknown, script.ErrRefused
	}
	if !m.InGrace() {
		return renewal.Gone, nil
	}
	for range maxGraceRetries {
		results, unknown, err := s.redis.Restore(s.restoreArgs(m, h), until)
		if unknown {
			s.noteRestorePending(h)
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
func (s *Service) restoreOutcome(m failover.Master, h *hold.Hold, r script.RestoreResult) renewal.Outcome {
	switch r.Outcome {
	case script.RestoreMoved:
		// an equal number: moved without a count, or in the grace period
		if r.Record.Moves() >= h.Details().Moves {
			return renewal.Moved
		}
		return renewal.Unknown
	case script.Restored:
		s.stats.restored.Add(1)
		fallthrough
	case script.RestoreAlreadyThere:
		s.graces.MarkRepaired(m.ReplID, &h.Watch)
		return renewal.Renewed
	case script.RestoreOtherMaster:
		return renewal.Unknown
	case script.RestoreTombstone:
		s.graces.MarkRepaired(m.ReplID, &h.Watch)
	case script.RestoreGraceOver:
		s.graces.StopRestores(m.ReplID)
	}
	return renewal.Gone
}

// moveAgain repeats the move of h from the earlier carrier in that record, because a new master
// lacks the move. The caller has locked the requests of h.
func (s *Service) moveAgain(h *hold.Hold, r script.Record, until time.Time) bool {
	opts := acquireOptions{db: h.Lock().DB, key: h.Key(), mode: h.Mode(), owner: h.Owner(), token: h.Token,
		ttl: s.cfg.WatchdogTimeout}
	m := s.newMove(h.Carrier, opts, r.Carrier, r.Request, h.Carrier.Requests.Add(1), time.Time{})
	defer m.unlockOld()
	return m.send(until).kind == moved
}

// noteRestorePending notes that a restore of h may still arrive.
func (s *Service) noteRestorePending(h *hold.Hold) {
	h.NoteRestorePending(time.Now().Add(s.graces.Left(h.Key()) + script.MaxAttempt))
}

// repairBeforeRelease gives the master of h our state of h, if it is in the grace period and may
// have an older one. The caller has locked the requests of h. An error is script.ErrRefused.
func (s *Service) repairBeforeRelease(h *hold.Hold, until time.Time) error {
	if !s.graces.NeedsRepair(h.Key(), &h.Watch) {
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
