package restore

import (
	"errors"
	"time"

	"leash/lockcmd/failover"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/renewal"
)

// A hold that a new master lacks, in that master's grace period, was forgotten there. It is written
// back as it was. The hold's requests are locked during that, so no release of it is in progress.

// maxAttempts is how often Restore tries in a row.
const maxAttempts = 3

// restoreArgs say how to restore holds of one slot and mode, whose requests the caller has locked.
func (r *Restorer) restoreArgs(m failover.Master, holds ...*hold.Hold) *script.RestoreArgs {
	args := &script.RestoreArgs{
		DB: holds[0].Lock().DB, Mode: holds[0].Mode(), Master: m.ReplID, GraceEnd: m.ClockGraceEnd,
		TokenTTL: r.TokenTTL,
	}
	for _, h := range holds {
		args.Holds = append(args.Holds, h.ToRestore())
	}
	return args
}

// Restore restores one hold, whose requests the caller has locked, if its master is in the grace
// period. It returns Renewed if the master has it now, Moved if another carrier has it, else Gone.
// The error is transport.ErrRefused: nobody knows.
func (r *Restorer) Restore(h *hold.Hold, until time.Time) (renewal.Outcome, error) {
	if r.Masters == nil || h.OwnerInformed() || h.LeaseOver() {
		return renewal.Gone, nil
	}
	m, ok := r.Masters.MasterOf(h.Key(), time.Now(), until)
	if !ok {
		return renewal.Unknown, transport.ErrRefused
	}
	if !m.InGrace() {
		return renewal.Gone, nil
	}
	for range maxAttempts {
		results, err := r.Redis.Restore(r.restoreArgs(m, h), until)
		if err != nil {
			return renewal.Unknown, errors.Join(transport.ErrRefused, err)
		}
		result := results[0]
		if how := r.restoreOutcome(m, h, result); how != renewal.Unknown {
			return how, nil
		}
		if result.Outcome != script.RestoreMoved || !r.moveAgain(h, result.Record, until) {
			break
		}
	}
	return renewal.Unknown, transport.ErrRefused
}

// restoreOutcome is what a restore says of h. Unknown means that an earlier carrier has it, or that
// nothing was done.
func (r *Restorer) restoreOutcome(m failover.Master, h *hold.Hold, result script.RestoreResult) renewal.Outcome {
	switch result.Outcome {
	case script.RestoreMoved:
		// an equal number: moved without a count, or in the grace period
		if result.Record.Moves() >= h.Details().Moves {
			return renewal.Moved
		}
		return renewal.Unknown
	case script.Restored:
		r.Restored.Add(1)
		fallthrough
	case script.RestoreAlreadyThere:
		r.Masters.MarkRepaired(m.ReplID, &h.Watch)
		return renewal.Renewed
	case script.RestoreOtherMaster:
		return renewal.Unknown
	case script.RestoreTombstone:
		r.Masters.MarkRepaired(m.ReplID, &h.Watch)
	case script.RestoreGraceOver:
		r.Masters.StopRestores(m.ReplID)
	}
	return renewal.Gone
}

// moveAgain repeats the move of h from the earlier carrier in that record, because a new master
// lacks the move. The caller has locked the requests of h.
func (r *Restorer) moveAgain(h *hold.Hold, of script.Record, until time.Time) bool {
	m := r.NewMove(h.Carrier, script.MoveArgs{
		Mode: h.Mode(), Owner: h.Owner(), From: script.Ref{Lock: h.Lock(), Token: h.Token, Carrier: of.Carrier},
		Last: of.Request, Request: h.Carrier.Requests.Add(1),
	})
	defer m.Unlock()
	result, err := m.Send(until)
	return err == nil && result.Moved
}
