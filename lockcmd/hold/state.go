package hold

// A hold is in one of a few states. Events change it, and only as the table transitions says. So
// this file decides when a client is told of a loss, when a hold is released, and when it is over.
// It has no locks and does no I/O: change.go applies the table.
//
// A state says whether a hold is there, as far as this Leash knows. How long it is safe is no
// state: that is computed from the time of the question (validity.go). A move by LOCK.ATTACH in
// progress is no state either: until Redis answers, the hold is here and is renewed.

// State is what this Leash knows of a hold.
type State uint8

const (
	granting     State = iota // granted, and not one of a carrier's holds yet
	Held                      // its owner relies on it, and the watchdog renews it
	Decrementing              // as held; a release of one count is in progress
	Missing                   // as decrementing, but the watchdog does not find it
	releasing                 // its owner releases all of it; the watchdog does not keep it
	leaving                   // as releasing; its connection has ended, and it may expire
	ending                    // it is being released, and its owner need not be told how that ends
	Over                      // it has ended, or this Leash has no part in it any more
	states                    // how many there are
)

// isReliedOn reports whether the owner relies on the hold.
func (s State) isReliedOn() bool { return s == Held || s == Decrementing || s == Missing }

// isRenewed reports whether the watchdog keeps the hold.
func (s State) isRenewed() bool { return s == Held || s == Decrementing }

// IsEnding reports whether a release of all of the hold is in progress.
func (s State) IsEnding() bool { return s == releasing || s == leaving || s == ending }

// Event is something that happens to a hold.
type Event uint8

const (
	attached          Event = iota // it was granted, and its connection is still there
	acquired                       // its owner has acquired it once more
	releaseOne                     // a release of one count begins
	releaseAll                     // a release of all counts begins
	resumed                        // the release in progress is over and has not ended it
	Ended                          // it has ended, and that is no loss
	attachedElsewhere              // another connection has it, by LOCK.ATTACH
	Elsewhere                      // another connection has or may have it; Redis knows
	notFound                       // the release in progress has not found it
	vanished                       // the watchdog has not found it
	expired                        // it may be over: Redis was silent for too long, or it was broken
	evicted                        // it is taken from its owner: MAXHOLD, IDLE, BREAK or QUORUM
	Dropped                        // it is a lease that is over, or a hold that nobody was told of
	ClosedToRelease                // its connection has ended, which releases it (R28)
	closedToExpire                 // its connection has ended, which lets it expire (R28)
	events                         // how many there are
)

// Effects are what follows from an event.
type Effects uint8

const (
	tellLoss       Effects = 1 << iota // tell the owner, and those who wait for the end
	tellMove                           // close the connection, because the hold is on another one
	ReportReleased                     // tell those who wait for the end that it was no loss
	ReportMoved                        // tell them to ask Redis
	LeaveToExpire                      // the same; release it if MAXHOLD ends before its lease
	StartRelease                       // begin a release of all counts
	askSoon                            // let the watchdog look for it
	CheckLimits                        // look for an eviction that was refused during the release
)

// transition is what an event does in a state. The zero value refuses the event.
type transition struct {
	to      State
	effects Effects
}

// transitions has all events that can happen in each state. Two more effects follow from the states
// alone: the watchdog drops a hold that leaves the renewed states, and a hold that becomes over is
// removed from everything that knows it.
var transitions = [states][events]transition{
	granting: {
		attached:        {Held, 0},
		ClosedToRelease: {ending, StartRelease},
		closedToExpire:  {Over, LeaveToExpire},
	},
	Held: {
		acquired:          {Held, 0},
		releaseOne:        {Decrementing, 0},
		releaseAll:        {releasing, 0},
		Ended:             {Over, ReportReleased},
		attachedElsewhere: {Over, ReportMoved | tellMove},
		Elsewhere:         {Over, ReportMoved},
		notFound:          {Over, tellLoss},
		vanished:          {Over, tellLoss},
		expired:           {Over, tellLoss},
		evicted:           {ending, tellLoss | StartRelease},
		Dropped:           {Over, ReportReleased},
		ClosedToRelease:   {ending, StartRelease},
		closedToExpire:    {Over, LeaveToExpire},
	},
	Decrementing: {
		resumed:           {Held, 0},
		Ended:             {Over, ReportReleased},
		attachedElsewhere: {Over, ReportMoved | tellMove},
		Elsewhere:         {Over, ReportMoved},
		notFound:          {Over, tellLoss},
		vanished:          {Missing, 0}, // the answer to the release tells why
		expired:           {Over, tellLoss},
		evicted:           {ending, tellLoss}, // the rest is released when the release is resumed
		ClosedToRelease:   {ending, 0},
		closedToExpire:    {Over, LeaveToExpire},
	},
	Missing: {
		resumed:           {Held, askSoon},
		Ended:             {Over, ReportReleased},
		attachedElsewhere: {Over, ReportMoved | tellMove},
		Elsewhere:         {Over, ReportMoved},
		notFound:          {Over, tellLoss},
		expired:           {Over, tellLoss},
		evicted:           {ending, tellLoss},
		ClosedToRelease:   {ending, 0},
		closedToExpire:    {Over, LeaveToExpire},
	},
	releasing: {
		resumed:           {Held, CheckLimits},
		Ended:             {Over, ReportReleased},
		attachedElsewhere: {Over, ReportMoved | tellMove},
		Elsewhere:         {Over, ReportMoved},
		notFound:          {Over, tellLoss},
		ClosedToRelease:   {ending, 0},
		closedToExpire:    {leaving, 0},
	},
	leaving: {
		resumed:           {Over, LeaveToExpire},
		Ended:             {Over, ReportReleased},
		attachedElsewhere: {Over, ReportMoved},
		Elsewhere:         {Over, ReportMoved},
		notFound:          {Over, ReportReleased},
	},
	ending: {
		resumed:           {ending, StartRelease},
		Ended:             {Over, ReportReleased},
		attachedElsewhere: {Over, ReportMoved},
		Elsewhere:         {Over, ReportMoved},
		notFound:          {Over, ReportReleased},
	},
}
