package lockcmd

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/acquire"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
)

// LockView is a lock as people see it.
type LockView struct {
	State string // held, grace or free
	Mode  string // as in LOCK.INFO; empty if it is not held
	// those that hold it, through any Leash and from Redisson
	Holds []HoldView
	Left  time.Duration // until its key ends in Redis, or its grace period
	// commands that wait for it on this Leash, in order of arrival: at most MaxWaitersShown
	Queue     []WaiterView
	Waiters   int // commands that wait for it on this Leash
	FairQueue int // FAIR waiters of all Leashes and of Redisson
}

// WaiterView is a command that waits for a lock on this Leash.
type WaiterView struct {
	DB       int
	Key      string
	Mode     string        // as in HoldView; empty for counters and latches
	Owner    string        // empty if it has no name
	Client   string        // "addr:port name"; empty for counters and latches
	ClientID int64         // 0 for them
	Waited   time.Duration // since its command began to wait; 0 if that has just ended
}

// MaxWaitersShown is how many waiters a LockView shows.
const MaxWaitersShown = 200

// freeState is the state of a LockView that nobody has.
const freeState = "free"

// BadKeyError is the error for a key that cannot be a lock.
type BadKeyError struct{ Text string }

// Error implements error.
func (e *BadKeyError) Error() string { return e.Text }

// ViewLock shows a lock. It asks Redis, and blocks until Redis has answered, at most until that
// time. Of a semaphore it shows the permits of this Leash. The error is a *BadKeyError or one of
// Redis. Safe for concurrent use.
func (s *Service) ViewLock(db int, key string, until time.Time) (LockView, error) {
	if msg := s.keyError(key); msg != "" {
		return LockView{}, &BadKeyError{msg}
	}
	lock := script.Lock{DB: db, Key: key}
	info, err := s.redis.Inspect(lock, until)
	isPermits := err != nil && redis.HasErrorPrefix(err, "WRONGTYPE")
	if err != nil && !isPermits {
		return LockView{}, err
	}
	v := LockView{State: heldState, Mode: info.Mode, Left: max(info.Left, 0), FairQueue: info.Queue}
	for _, f := range slices.Concat(info.Holds, info.Others) {
		v.Holds = append(v.Holds, s.viewOf(key, db, f, info.Now, v.Left))
	}
	if isPermits || info.Owner == "" {
		v.Mode = ""
		for _, h := range s.holds.OfLock(lock) {
			if hv, ok := s.view(h); ok && h.IsPermit() {
				v.Holds, v.Mode = append(v.Holds, hv), hv.Mode
			}
		}
	}
	if len(v.Holds) == 0 {
		v.State, v.Mode, v.Left = freeState, "", max(s.graces.Left(key), 0)
		if v.Left > 0 {
			v.State = graceState
		}
	}
	waiters := s.waits.First(lock, MaxWaitersShown)
	v.Waiters = s.waiters(lock)
	for _, w := range waiters {
		v.Queue = append(v.Queue, viewWaiter(w))
	}
	return v, nil
}

// waiters is the number of commands that wait for the lock on this Leash.
func (s *Service) waiters(lock script.Lock) int {
	all, _ := s.waits.OfLock(lock)
	return all
}

// viewRequest returns what is fixed of a request for a lock, and its carrier; nil for counters and
// latches.
func viewRequest(lock script.Lock, request wait.Request[acquire.Result]) (v WaiterView, c *acquire.Carrier) {
	v.DB, v.Key = lock.DB, lock.Key
	if r, ok := request.(acquire.Waiter); ok {
		var opts *acquire.Options
		c, opts = r.Waiter()
		v.Mode, v.Owner = opts.Mode.Name, opts.Owner
	}
	return v, c
}

func viewWaiter(w *wait.Waiter[acquire.Result]) WaiterView {
	v, c := viewRequest(w.Lock, w.Request)
	if c == nil {
		return v
	}
	v.Client, v.ClientID = c.Client().Name, c.ClientID()
	if since, ok := c.Waits(); ok {
		v.Waited = time.Since(since)
	}
	return v
}

// Waiting shows what the current command waits for. ok is false if it does not wait for a lock, a
// permit, a counter or a latch. A LOCK.MACQUIRE shows the key that it waits for last, and with
// QUORUM none until it waits for one. It does not block and is safe for concurrent use.
func (c *Carrier) Waiting() (v WaiterView, ok bool) {
	wt := c.WaitsFor()
	since, waits := c.Waits()
	if !waits || wt == nil {
		return v, false
	}
	v, _ = viewRequest(wt.Queue.Lock, wt.Request)
	v.Waited = time.Since(since)
	return v, true
}

// IsSilence reports whether the error of ViewLock or Break means that Redis did not answer in time.
func IsSilence(err error) bool { return transport.IsSilence(err) }

// ErrorText is an error of ViewLock or Break as a client would get it.
func ErrorText(err error) string { return transport.ErrorText(err) }

// Locks returns the names of locks and semaphores that somebody holds through any Leash, as far as
// keys show: a plain lock's own key, or {name}:leash. It blocks until Redis answers.
func (s *Service) Locks(ctx context.Context, db int, keys []string) (names []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithDeadline(ctx, s.deadline())
	defer cancel()
	return s.redis.Locks(ctx, db, keys)
}
