package lockcmd

// A hold is in one of a few states. Events change it, and only as the table transitions says. So
// this file decides when a client is told of a loss, when a hold is released, and when it is over.
// It has no locks and does no I/O: hold_change.go applies the table.
//
// A state says whether a hold is there, as far as this Leash knows. How long it is safe is no
// state: that is computed from the time of the question (validity.go). A move by LOCK.ATTACH in
// progress is no state either: until Redis answers, the hold is here and is renewed.
//
// A hold has flags for other things, which no transition depends on:
//
//	requestLocked, releaseWaiting   requests about it in progress   request_lock.go, release.go
//	remoteWatch, endWatchers        who waits for its end           end_watch.go
//	unanswered, wanted              pushes (LOCK.NOTIFY)            notify.go
//	group                           whether its owner knows of it   hold_group.go
//	Lease, StayOnClose              which event the end of its connection is: closingEventLocked

// state is what this Leash knows of a hold.
type state uint8

const (
	granting     state = iota // granted, and not one of a carrier's holds yet
	held                      // its owner relies on it, and the watchdog renews it
	decrementing              // as held; a release of one count is in progress
	missing                   // as decrementing, but the watchdog does not find it
	releasing                 // its owner releases all of it; the watchdog does not keep it
	leaving                   // as releasing; its connection has ended, and it may expire
	ending                    // it is being released, and its owner need not be told how that ends
	over                      // it has ended, or this Leash has no part in it any more
	states                    // how many there are
)

// isReliedOn reports whether the owner relies on the hold.
func (s state) isReliedOn() bool { return s == held || s == decrementing || s == missing }

// isRenewed reports whether the watchdog keeps the hold.
func (s state) isRenewed() bool { return s == held || s == decrementing }

// isEnding reports whether a release of all of the hold is in progress.
func (s state) isEnding() bool { return s == releasing || s == leaving || s == ending }

// event is something that happens to a hold.
type holdEvent uint8

const (
	attached          holdEvent = iota // it was granted, and its connection is still there
	acquired                           // its owner has acquired it once more
	releaseOne                         // a release of one count begins
	releaseAll                         // a release of all counts begins
	resumed                            // the release in progress is over and has not ended it
	ended                              // it has ended, and that is no loss
	attachedElsewhere                  // another connection has it, by LOCK.ATTACH
	elsewhere                          // another connection has or may have it; Redis knows
	notFound                           // the release in progress has not found it
	vanished                           // the watchdog has not found it
	expired                            // it may be over: Redis was silent for too long, or it was broken
	evicted                            // it is taken from its owner: MAXHOLD, IDLE, BREAK or QUORUM
	dropped                            // it is a lease that is over, or a hold that nobody was told of
	closedToRelease                    // its connection has ended, which releases it (R28)
	closedToExpire                     // its connection has ended, which lets it expire (R28)
	events                             // how many there are
)

// effects are what follows from an event.
type effects uint8

const (
	tellLoss       effects = 1 << iota // tell the owner, and those who wait for the end
	tellMove                           // close the connection, because the hold is on another one
	reportReleased                     // tell those who wait for the end that it was no loss
	reportMoved                        // tell them to ask Redis
	leaveToExpire                      // the same; release it if MAXHOLD ends before its lease
	startRelease                       // begin a release of all counts
	askSoon                            // let the watchdog look for it
	checkLimits                        // look for an eviction that was refused during the release
)

// transition is what an event does in a state. The zero value refuses the event.
type transition struct {
	to      state
	effects effects
}

// transitions has all events that can happen in each state. Two more effects follow from the states
// alone: the watchdog drops a hold that leaves the renewed states, and a hold that becomes over is
// removed from everything that knows it.
var transitions = [states][events]transition{
	granting: {
		attached:        {held, 0},
		closedToRelease: {ending, startRelease},
		closedToExpire:  {over, leaveToExpire},
	},
	held: {
		acquired:          {held, 0},
		releaseOne:        {decrementing, 0},
		releaseAll:        {releasing, 0},
		ended:             {over, reportReleased},
		attachedElsewhere: {over, reportMoved | tellMove},
		elsewhere:         {over, reportMoved},
		notFound:          {over, tellLoss},
		vanished:          {over, tellLoss},
		expired:           {over, tellLoss},
		evicted:           {ending, tellLoss | startRelease},
		dropped:           {over, reportReleased},
		closedToRelease:   {ending, startRelease},
		closedToExpire:    {over, leaveToExpire},
	},
	decrementing: {
		resumed:           {held, 0},
		ended:             {over, reportReleased},
		attachedElsewhere: {over, reportMoved | tellMove},
		elsewhere:         {over, reportMoved},
		notFound:          {over, tellLoss},
		vanished:          {missing, 0}, // the answer to the release tells why
		expired:           {over, tellLoss},
		evicted:           {ending, tellLoss}, // the rest is released when the release is resumed
		closedToRelease:   {ending, 0},
		closedToExpire:    {over, leaveToExpire},
	},
	missing: {
		resumed:           {held, askSoon},
		ended:             {over, reportReleased},
		attachedElsewhere: {over, reportMoved | tellMove},
		elsewhere:         {over, reportMoved},
		notFound:          {over, tellLoss},
		expired:           {over, tellLoss},
		evicted:           {ending, tellLoss},
		closedToRelease:   {ending, 0},
		closedToExpire:    {over, leaveToExpire},
	},
	releasing: {
		resumed:           {held, checkLimits},
		ended:             {over, reportReleased},
		attachedElsewhere: {over, reportMoved | tellMove},
		elsewhere:         {over, reportMoved},
		notFound:          {over, tellLoss},
		closedToRelease:   {ending, 0},
		closedToExpire:    {leaving, 0},
	},
	leaving: {
		resumed:           {over, leaveToExpire},
		ended:             {over, reportReleased},
		attachedElsewhere: {over, reportMoved},
		elsewhere:         {over, reportMoved},
		notFound:          {over, reportReleased},
	},
	ending: {
		resumed:           {ending, startRelease},
		ended:             {over, reportReleased},
		attachedElsewhere: {over, reportMoved},
		elsewhere:         {over, reportMoved},
		notFound:          {over, reportReleased},
	},
}
