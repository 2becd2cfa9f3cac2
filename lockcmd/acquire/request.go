package acquire

import (
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
)

// request is what the acquires of locks and of permits have in common. Its script may be sent
// several times and acts once (R7).
type request struct {
	carrier      *Carrier
	options      Options
	number       int64 // among the requests of the carrier
	copyPending  bool  // a copy of it may reach Redis later
	graceRetries int   // attempts in a row that were refused by a master in grace
}

// kind is how they differ.
type kind interface {
	wait.Request[Result]
	// takeBack takes back in Redis what the request was granted, by a request with that number. It
	// repeats that until Redis answers. late says that it is about a late copy of the request:
	// what a carrier got by the request stays.
	takeBack(number int64, late bool)
	// takeOver ends h and grants its lock to the request, in one script (R21). unknown tells that a
	// copy of it may still be on its way.
	takeOver(h *hold.Hold, end script.EndArgs, at wait.Position, until time.Time) (did script.HandoverResult,
		unknown bool, err error)
	// undoHandover takes back what takeOver has granted to a waiter that has left. copyPending says
	// that a copy of it may still grant something.
	undoHandover(grant Result, copyPending bool)
}

// Waiter is a request that waits.
type Waiter interface {
	// Waiter says whose request it is, and what it asks for. Only the mode and the owner may be
	// read by other goroutines. It does not block.
	Waiter() (*Carrier, *Options)
}

// Waiter implements Waiter.
func (a *request) Waiter() (*Carrier, *Options) { return a.carrier, &a.options }

// maxGraceRetries is how often in a row one acquire may probe a new master and try again.
const maxGraceRetries = 3

// refusedInGrace handles a refusal by the master with that replication id: the lock is free, but
// this master may not grant it as far as Leash knew. again is true when it may grant now.
func (a *request) refusedInGrace(replid string, until time.Time) (r Result, again bool) {
	s, key := a.carrier.Acquirer, a.options.Key
	left, ok := s.Masters.LeftAt(key, replid)
	if !ok {
		s.Masters.Probe(key, time.Now(), until)
		left, ok = s.Masters.LeftAt(key, replid)
	}
	switch {
	case !ok:
		s.Redis.RefreshTopologyAfter(transport.Refused)
	case left > 0:
		return Result{Kind: Taken, left: left}, false
	case a.graceRetries < maxGraceRetries:
		a.graceRetries++
		return r, true
	default:
		a.graceRetries = 0
	}
	return notAccepted(), false
}

// maxLate is how late a copy of an acquire may reach Redis and still be taken back, if the TTL is
// longer.
const maxLate = 5 * time.Minute

// takeBackTwice takes back what a request of unknown outcome was granted. It does so once more a
// TTL later, in case a late copy has granted something (R26). then is called and done is closed
// when Redis has answered the first time.
func (a *request) takeBackTwice(k kind, then func()) (done <-chan struct{}) {
	// The number is drawn before then unlocks anything: later requests must have larger ones.
	number, answered := a.carrier.Requests.Add(1), make(chan struct{})
	a.carrier.Acquirer.Tasks.Spawn(func() {
		k.takeBack(number, false)
		then()
		close(answered)
		a.takeBackLate(k, number)
	})
	return answered
}

// takeBackLate takes back, a TTL later, what a late copy was granted. What is left of a hold that a
// carrier got stays: it was left to expire when the connection broke, and its owner may still rely
// on it (R28).
func (a *request) takeBackLate(k kind, number int64) {
	if !a.carrier.Acquirer.Redis.StoppedWithin(min(a.options.TTL, maxLate)) {
		k.takeBack(number, true)
	}
}

// accepted counts a grant that the carrier has now, and takes back what a late copy is granted.
func (a *request) accepted(k kind) {
	a.carrier.Acquirer.Acquires.Add(1)
	if a.copyPending {
		a.undoCopies(k)
	}
}

// undoCopies takes back in the background what a late copy is granted.
func (a *request) undoCopies(k kind) {
	number := a.carrier.Requests.Add(1)
	a.carrier.Acquirer.Tasks.Spawn(func() { a.takeBackLate(k, number) })
}

// putBackMoved takes back one acquire of a hold of the owner that was or may have been moved here.
// Its other acquires belong to the owner. carry makes it a hold of the carrier, and returns nil if
// it is not there. then is called with it when Redis has answered. Requests about the hold wait
// until then.
func (a *request) putBackMoved(owner string, carry func() *hold.Hold, then func(h *hold.Hold)) {
	moveDone := a.carrier.beginMove(a.options.Lock, a.options.Mode, owner)
	a.carrier.Acquirer.Tasks.Spawn(func() {
		h := carry()
		if h != nil {
			a.carrier.Acquirer.PutBack(h, a.options.ID)
		}
		moveDone()
		then(h)
	})
}

// finishLimit is until when a move with an unknown outcome is repeated.
func (a *request) finishLimit() time.Time { return time.Now().Add(max(a.options.TTL, maxLate)) }
