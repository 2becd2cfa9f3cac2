package restore

import (
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// ExtendArgs say that the lease f of a lock lasts so long from now on.
func (r *Restorer) ExtendArgs(lock script.Lock, f script.Hold, lasts time.Duration) script.ExtendArgs {
	return script.ExtendArgs{Lock: lock, Hold: f, RequestID: r.Holds.NewID(), Lasts: lasts, Keep: r.Holds.TTL}
}

// Extend sets how long h lasts, a lease whose requests the caller has locked. It blocks until Redis
// answers, at most until that time.
func (r *Restorer) Extend(h *hold.Hold, args script.ExtendArgs, until time.Time) (done script.ExtendResult, err error) {
	h.ExtendFor(args.Lasts)
	if done, err = r.Redis.Extend(args, until); err != nil || done.Left < 0 {
		r.Holds.Watchdog.Check(&h.Watch) // Redis will tell how long h lasts
	} else {
		h.SetLease(args.Lasts, renewal.Until(done.Sent, script.Millis(done.Left)))
	}
	return done, err
}
