package restore

import (
	"errors"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/renewal"
)

// ErrIsRenewed is the error of Extend for a hold without LEASE.
var ErrIsRenewed = errors.New("lockcmd: the hold is renewed")

// maxExtends is how often Extend sends another request because the hold has changed.
const maxExtends = 16

// Extend sets how long a lease still lasts, on any Leash. It reads the hold's record, sends a
// record that replaces it, and starts again if the record has changed (R13). A late copy of the
// request finds another record and does nothing. left is what is left of the lease, or of MAXHOLD
// if that ends earlier. Extend blocks until Redis answers, at most until that time. The error is
// script.ErrAbsent, ErrIsRenewed or one of package transport.
func (r *Restorer) Extend(lock script.Lock, which hold.Selector, lasts time.Duration, until time.Time) (
	left time.Duration, err error) {
	for range maxExtends {
		if left, err = r.tryExtend(lock, which, lasts, until); err != nil || left >= 0 {
			return left, err
		}
	}
	return 0, transport.ErrRefused
}

// tryExtend extends the hold once. left is negative when the record has changed since it was read.
func (r *Restorer) tryExtend(lock script.Lock, which hold.Selector, lasts time.Duration, until time.Time) (
	left time.Duration, err error) {
	info, f, ok, err := r.Seek(lock, which, until)
	if err != nil {
		return 0, err
	}
	heard := time.Now()
	if !ok {
		return 0, script.ErrAbsent
	}
	if !f.Record.Terms().Lease {
		return 0, ErrIsRenewed
	}
	rest := script.MaxTTL
	h := r.Holds.FindRef(f.Ref(lock))
	if most := f.Record.Terms().MaxHold; h != nil {
		rest = h.MaxHoldLeft(heard)
	} else if most > 0 {
		// The age is negative after a step back of Redis's clock.
		rest = most - max(script.Millis(info.Now-f.Record.Since), 0)
	}
	if rest < script.MaxTTL {
		lasts = hold.CapLease(lasts, rest).Truncate(time.Millisecond)
	}
	args := r.extendArgs(lock, f, lasts)
	var done script.ExtendResult
	switch {
	case h == nil:
		args.Event = event.Text(event.Extended, f.Record.Token, f.Record.Carrier, lock.Key)
		done, err = r.Redis.Extend(args, until)
	case !h.LockRequests(until):
		return 0, transport.ErrRefused
	default:
		defer h.UnlockRequests()
		done, err = r.extendHold(h, args, until)
	}
	left = script.Millis(done.Left)
	if rest < script.MaxTTL {
		left = min(left, max(rest-time.Since(heard), 0))
	}
	return left, err
}

// extendArgs say that the lease f lasts so long from now on.
func (r *Restorer) extendArgs(lock script.Lock, f script.Hold, lasts time.Duration) script.ExtendArgs {
	return script.ExtendArgs{Lock: lock, Hold: f, RequestID: r.Holds.NewID(), Lasts: lasts, Keep: r.Holds.TTL}
}

// extendHold extends h, whose requests the caller has locked.
func (r *Restorer) extendHold(h *hold.Hold, args script.ExtendArgs, until time.Time) (done script.ExtendResult,
	err error) {
	h.ExtendFor(args.Lasts)
	if done, err = r.Redis.Extend(args, until); err != nil || done.Left < 0 {
		r.Holds.Watchdog.Check(&h.Watch) // Redis will tell how long h lasts
	} else {
		h.SetLease(args.Lasts, renewal.Until(done.Sent, script.Millis(done.Left)))
	}
	return done, err
}

// SwitchToLease turns h into a lease that lasts so long from now on. h is renewed so far, and
// nobody has been told of it. A hold that was acquired before the group is left alone. A hold that
// Redis does not have is forgotten. SwitchToLease blocks until Redis answers, at most until that
// time. The error is one of package transport.
func (r *Restorer) SwitchToLease(h *hold.Hold, of *hold.Group, lasts time.Duration, until time.Time) error {
	if !h.LockRequests(until) {
		return transport.ErrRefused
	}
	defer h.UnlockRequests()
	if !h.MarkAsLease(of) {
		return nil
	}
	info, err := r.Redis.Inspect(h.Lock(), until)
	if err != nil {
		return err
	}
	f, ok := info.Find(h.Token)
	if !ok || f.Record.Carrier != h.Carrier.Name {
		h.Apply(hold.Dropped) // it was lost
		return nil
	}
	args := r.extendArgs(h.Lock(), f, lasts)
	args.ToLease = true
	done, err := r.extendHold(h, args, until)
	if err == nil && done.Left < 0 {
		err = transport.ErrRefused
	}
	return err
}
