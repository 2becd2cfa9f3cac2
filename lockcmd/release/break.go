package release

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// BreakOutcome says how Break ended. Its values are the replies of LOCK.BREAK.
type BreakOutcome int64

// The outcomes of Break.
const (
	WasFree   BreakOutcome = 0
	WasTold   BreakOutcome = 1 // the holder was told before the hold was ended
	WasForced BreakOutcome = 2 // the hold was ended, and nobody confirmed that its holder knows
)

// ErrOtherHolder is the error of Break when a hold is there that was not confirmed.
var ErrOtherHolder = errors.New("lockcmd: another holder has the lock")

// markInterval is how often a hold is marked until it is over. The event of a mark may get lost, or
// overtake the reply to the grant of the hold (R30).
const markInterval = 200 * time.Millisecond

// confirmSlack is how long after BreakTimeout a last report may still be read.
const confirmSlack = 100 * time.Millisecond

// Break ends all holds of a lock against their owners' will, if it has none but those with the
// confirmed tokens; nil: whichever there are. A hold of Redisson has the token 0. Break blocks
// until Redis has answered, at most until that time. The error is ErrOtherHolder or a
// transport.ErrRefused before anything was done, a transport.ErrUnknown if some holds may be ended,
// or one of Redis.
func (r *Releaser) Break(lock script.Lock, confirmed []int64, until time.Time) (BreakOutcome, error) {
	b := &breakRequest{Releaser: r, lock: lock, until: until, targets: make(map[int64]bool),
		marked: make(map[string]time.Time), awaitingReport: make(map[int64]script.Ref)}
	switch err := b.run(confirmed); {
	case err == nil:
		return b.outcome(), nil
	case b.begun && transport.IsSilence(err):
		return WasFree, transport.ErrUnknown
	case transport.IsSilence(err):
		return WasFree, transport.ErrRefused
	default:
		return WasFree, err
	}
}

// breakRequest ends all holds of a lock against their owners' will, in the order of R27:
//   - It marks each hold as broken in Redis and sends an event to the hold's Leash. It repeats both
//     while the hold is there.
//   - That Leash asks Redis, tells its client, ends the hold and writes in the tombstone how the
//     hold ended. The owner may have released it first.
//   - After BreakTimeout this Leash ends what is still there. The other Leash finds the mark later.
//
// A hold of Redisson is ended at once, because there is nobody to tell.
type breakRequest struct {
	*Releaser
	lock    script.Lock
	until   time.Time
	targets map[int64]bool // tokens of the holds to end
	// when the holds were last marked, by record prefix; a hold that moves is marked again
	marked     map[string]time.Time
	forceAfter time.Time // until then the Leashes of the holds have time

	begun       bool
	unconfirmed bool // nobody reported how one of them ended

	mu sync.Mutex // guards the following
	// holds whose Leashes are to report in the tombstone, by token
	awaitingReport    map[int64]script.Ref
	ownerTold, forced bool
}

func (b *breakRequest) outcome() BreakOutcome {
	switch {
	case b.forced, b.unconfirmed:
		return WasForced
	case b.ownerTold:
		return WasTold
	}
	return WasFree
}

func (b *breakRequest) run(confirmed []int64) error {
	info, err := b.Redis.Inspect(b.lock, b.until)
	// Leash may have holds beside readers of Redisson.
	if err == nil && len(info.Holds) == 0 && (len(info.Others) == 0 || info.Others[0].Mode != script.Plain) {
		info, _, _, err = b.Seek(b.lock, hold.Selector{}, b.until)
	}
	if err == nil && !isConfirmed(info, confirmed) {
		err = ErrOtherHolder
	}
	for _, f := range info.Others {
		if err == nil {
			err = b.forceOther(f)
		}
	}
	for _, f := range info.Holds {
		b.targets[f.Record.Token] = true
	}
	b.forceAfter = time.Now().Add(b.BreakTimeout)
	for pause := 2 * time.Millisecond; err == nil; pause = min(2*pause, 50*time.Millisecond) {
		var over bool
		if over, err = b.step(info); over || err != nil {
			break
		}
		if b.Redis.StoppedWithin(pause) || time.Now().After(b.until) {
			return transport.ErrRefused
		}
		info, err = b.Redis.Inspect(b.lock, b.until)
	}
	if err == nil {
		b.awaitReports()
	}
	return err
}

// isConfirmed reports whether all holds may be ended.
func isConfirmed(info script.Inspection, confirmed []int64) bool {
	return confirmed == nil ||
		!slices.ContainsFunc(slices.Concat(info.Holds, info.Others), func(f script.Hold) bool {
			return !slices.Contains(confirmed, f.Record.Token)
		})
}

// step does what the inspection requires. It reports whether all targets are over.
func (b *breakRequest) step(info script.Inspection) (over bool, err error) {
	var toMark, overdue []script.Hold
	over = true
	for _, f := range info.Holds {
		if !b.targets[f.Record.Token] { // granted after the command began
			continue
		}
		over = false
		mark, now := script.RecordPrefix(f.Record.Token, f.Record.Carrier), time.Now()
		switch last, marked := b.marked[mark]; {
		case marked && now.After(b.forceAfter):
			overdue = append(overdue, f)
		case now.Sub(last) > markInterval:
			b.marked[mark] = now
			toMark = append(toMark, f)
		}
	}
	b.begun = b.begun || len(toMark) > 0
	if err = b.forEach(toMark, b.markBroken); err == nil {
		err = b.forEach(overdue, b.force)
	}
	return over, err
}

// forEach runs do for several holds at a time, and returns an error if there is one.
func (b *breakRequest) forEach(holds []script.Hold, do func(script.Hold) error) error {
	errs := make([]error, len(holds))
	b.InParallel(len(holds), func(i int) { errs[i] = do(holds[i]) })
	return cmp.Or(errs...)
}

// markBroken tells the Leash of a hold that the hold is to be broken.
func (b *breakRequest) markBroken(f script.Hold) error {
	token, carrier := f.Record.Token, f.Record.Carrier
	ref := f.Ref(b.lock)
	marked, err := b.Redis.MarkBroken(ref, b.keep(f), event.Text(event.Broken, token, carrier, b.lock.Key), b.until)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.awaitingReport[token] = ref
	b.mu.Unlock()
	if h := b.Holds.FindRef(ref); h != nil && marked {
		b.ObeyBreak(h) // the event comes too
	}
	return nil
}

// awaitReports waits until the Leashes have reported how the holds ended. Without an answer from
// Redis a report is missing.
func (b *breakRequest) awaitReports() {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		missing := slices.Collect(maps.Keys(b.awaitingReport))
		b.InParallel(len(missing), func(i int) { b.readReport(missing[i]) })
		if len(b.awaitingReport) == 0 {
			return
		}
		if time.Now().After(b.forceAfter) || b.Redis.StoppedWithin(pause) {
			b.unconfirmed = true
			return
		}
	}
}

// readReport notes how a hold ended, if its Leash has reported that.
func (b *breakRequest) readReport(token int64) {
	b.mu.Lock()
	ref := b.awaitingReport[token]
	b.mu.Unlock()
	text, err := b.Redis.Tombstone(ref, b.forceAfter.Add(confirmSlack))
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch how, _, _ := strings.Cut(text, " "); {
	case text == event.Forced: // forced by another BREAK
		b.forced = true
	case how == event.Lost:
		b.ownerTold = true
	case how == event.Released, how == event.Moved, how == event.Repeated: // its owner was first
	default:
		return
	}
	delete(b.awaitingReport, token)
}

// force ends a hold without its Leash, which was told before. The tombstone stays and is made
// final, so that the Leash finds the reason.
func (b *breakRequest) force(f script.Hold) error {
	ended, err := b.Redis.ForceEnd(b.lock, f, b.Holds.NewID(), b.keep(f), b.until)
	if err == nil && ended {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.forced = true
		delete(b.awaitingReport, f.Record.Token)
	}
	return err
}

// forceOther ends a hold of Redisson.
func (b *breakRequest) forceOther(f script.Hold) error {
	b.begun = true
	ended, err := b.Redis.ForceEndOther(b.lock, f, b.Holds.NewID(), b.keep(f), b.until)
	b.forced = b.forced || err == nil && ended
	return err
}

// keep is how long marks and answers about a hold live.
func (b *breakRequest) keep(f script.Hold) time.Duration {
	return max(script.Millis(f.Record.TTL), b.Holds.TTL)
}
