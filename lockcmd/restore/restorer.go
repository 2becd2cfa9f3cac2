package restore

import (
	"sync/atomic"
	"time"

	"leash/lockcmd/failover"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// Restorer keeps the holds of one Leash in Redis. It implements renewal.Store.
// Set the fields before the first call. It is safe for concurrent use.
type Restorer struct {
	Redis    *script.Client
	Holds    *hold.Registry
	Masters  *failover.Masters // nil without a grace period
	TokenTTL time.Duration     // as in script.RestoreArgs
	MaxSeeks int               // attempts of Seek; 0 for one

	Restored atomic.Int64 // holds written back to a new master
}

// MaxSeeks is the usual Restorer.MaxSeeks. Another Leash may be about to restore a hold.
const MaxSeeks = 16

// seekPause is the pause between two attempts of Seek.
const seekPause = 100 * time.Millisecond

// Seek reads a lock and finds the hold that which names. If its master is in the grace period and
// may lack the hold, Seek waits for it. Seek blocks until Redis answers, at most until that time.
func (r *Restorer) Seek(lock script.Lock, which hold.Selector, until time.Time) (info script.Inspection,
	f script.Hold, ok bool, err error) {
	for left := r.MaxSeeks - 1; ; left-- {
		info, err = r.Redis.Inspect(lock, until)
		f, ok = which.Find(info)
		if err != nil || ok || left <= 0 || which.EndedBefore(info) || r.Masters.Left(lock.Key) <= 0 {
			return info, f, ok, err
		}
		if time.Until(until) < 2*seekPause || r.Redis.StoppedWithin(seekPause) {
			return info, f, ok, err
		}
	}
}
