package lockcmd

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
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
		for _, h := range s.ofLock(lock) {
			if hv, ok := h.view(); ok && h.mode() == script.Permit {
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
	waiters := s.queues.ofLock(lock, MaxWaitersShown)
	v.Waiters = s.queues.length(lock)
	for _, w := range waiters {
		v.Queue = append(v.Queue, viewWaiter(w))
	}
	return v, nil
}

// ofLock returns the first waiters for a lock in all its queues, in order of arrival.
func (q *waitQueues) ofLock(lock script.Lock, most int) (waiters []*waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counts[lock] == 0 {
		return nil
	}
	take := func(queue *waitQueue) {
		if queue != nil {
			waiters = append(waiters, queue.waiters[:min(len(queue.waiters), most)]...)
		}
	}
	take(q.fair[lock])
	channels := map[string]bool{script.PermitChannel(lock.Key): true, script.LatchChannel(lock.Key): true}
	for _, m := range script.Modes {
		channels[m.Channel(lock.Key)] = true
	}
	for channel := range channels {
		take(q.byID[queueID{lock, channel}])
	}
	slices.SortFunc(waiters, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	return waiters[:min(len(waiters), most)]
}

// view returns what is fixed of w, and its carrier; nil for counters and latches.
func (w *waiter) view() (v WaiterView, c *Carrier) {
	v.DB, v.Key = w.DB, w.Key
	switch r := w.request.(type) {
	case *acquisition:
		v.Mode, v.Owner, c = r.options.mode.Name, r.options.owner, r.carrier
	case *permitAcquisition:
		v.Mode, c = script.Permit.Name, r.carrier
	}
	return v, c
}

func viewWaiter(w *waiter) WaiterView {
	v, c := w.view()
	if c == nil {
		return v
	}
	v.Client, v.ClientID = c.clientName(), c.clientID()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commandWait != nil {
		v.Waited = time.Since(c.commandWait.began)
	}
	return v
}

// IsSilence reports whether the error of ViewLock or Break means that Redis did not answer in time.
func IsSilence(err error) bool {
	return errors.Is(err, script.ErrUnknown) || errors.Is(err, script.ErrRefused)
}

// ErrorText is an error of ViewLock or Break as a client would get it.
func ErrorText(err error) string { return script.ErrorText(err) }
