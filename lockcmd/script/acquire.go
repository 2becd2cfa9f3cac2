package script

import (
	"strconv"
	"time"
)

// GrantTerms say what a grant of a lock writes, and for whom.
type GrantTerms struct {
	Owner, Carrier string
	Request        int64         // number of the request among those of the carrier
	Master         string        // replication id of the master that may grant, "-" for none, "" for any
	TTL, TokenTTL  time.Duration // in whole ms; the token counter lives without end with 0
	Options        string        // the first letter is w or l
	ID, Client     string        // as the client gave them
	Ext            string        // the name=value pairs of the record, "-" for none
}

// appendWho appends who is granted the lock.
func (g *GrantTerms) appendWho(args []string) []string {
	return append(args, g.Owner, g.Carrier, decimal(g.Request))
}

// appendWhat appends what the grant writes.
func (g *GrantTerms) appendWhat(args []string) []string {
	return append(args, millisText(g.TTL), g.Options, millisText(g.TokenTTL), RecordID(g.ID), RecordClient(g.Client),
		g.Ext, g.Master)
}

// Place says whether and where the command waits on this Leash.
type Place string

// The places.
const (
	PlaceNone  Place = ""  // it does not wait
	PlaceLast  Place = "0" // it begins to wait
	PlaceFirst Place = "1" // it is the first that waits on this Leash
	PlaceTurn  Place = "2" // this Leash has its turn, which lasts for this waiter
	// It does not wait, and its connection reads already: whoever waits for that connection is
	// overtaken.
	PlaceReads Place = "3"
)

// AcquireArgs say who wants a lock and how.
type AcquireArgs struct {
	Lock       Lock
	Mode       *Mode
	Grant      GrantTerms
	Token      int64  // of the hold that the carrier has for the owner; 0 for none
	Turn       string // the entry of this Leash in the list of turns
	Place      Place
	TurnEvent  string        // for the Leash whose turn it is
	FairFor    time.Duration // how long a FAIR waiter counts as alive; 0 without BLOCK
	FairBit    string        // of this Leash in the scores of FAIR waiters
	Replicas   int64         // that must have the grant; 0 for none
	ReplicasIn time.Duration // how long the grant waits for them
}

// Acquisition is one request for a lock. It may be sent several times and acts once (R7). One
// goroutine at a time may use it.
type Acquisition struct {
	// Unknown tells that a copy of the request may still be on its way. The caller resets it.
	Unknown bool
	call    scriptCall
}

// AcquireOutcome says what an acquire found.
type AcquireOutcome int

// The outcomes.
const (
	AcquireTaken     AcquireOutcome = iota // somebody else has the lock, or it is reserved
	AcquireGranted                         // granted, or counted once more
	AcquireElsewhere                       // the owner's hold has another carrier
	AcquireGone                            // the hold that the carrier had is gone
	AcquireStale                           // a late copy; nothing was done
	AcquireOtherMode                       // the owner holds the lock in another mode (R9)
	AcquireInGrace                         // free, but this master may not grant it
	AcquireAgain                           // some dead FAIR waiters were removed: ask again
)

// AcquireResult is what an acquire did.
type AcquireResult struct {
	Outcome AcquireOutcome
	// Of the grant; of the last grant, if the lock is taken, 0 if nobody knows it; of the owner's
	// hold elsewhere, 0 if its record is unreadable.
	Token    int64
	Left     time.Duration // of the grant or of the hold of the other, from Sent on; 0 if unknown
	Sent     time.Time
	Replicas int64  // that have the grant, if the request asked for some
	Repeated bool   // another request with the same ID was granted before
	Carrier  string // of the owner's hold elsewhere
	ID       string // of its last request, as in a record
	Master   string // replication id of the master that may not grant
}

// Acquire tries once to take a lock. It blocks until Redis answers, or until the given time. The
// error is ErrUnknown, ErrRefused, or Redis's own.
func (c *Client) Acquire(a *Acquisition, args *AcquireArgs, until time.Time) (AcquireResult, error) {
	a.prepare(c, args)
	r, err := answer(c, &a.call, until, acquireResult)
	a.Unknown = a.Unknown || a.call.OutcomeUnknown
	a.call.OutcomeUnknown = false
	r.Sent, r.Replicas = a.call.Sent, a.call.GotReplicas
	return r, err
}

// acquireResult reads the reply. ok is false if the script has no such reply.
func acquireResult(reply any) (r AcquireResult, ok bool) {
	n, ok := listOf(reply)
	if !ok || n[0] < 0 || n[0] >= int64(len(acquireReplies)) {
		return r, false
	}
	shape := acquireReplies[n[0]]
	if len(n) < shape.least || len(n) > shape.most {
		return r, false
	}
	switch r.Outcome = shape.outcome; r.Outcome {
	case AcquireTaken:
		r.Left = Millis(n[1])
		if len(n) > 2 {
			r.Token = n[2]
		}
	case AcquireGranted:
		r.Token, r.Left, r.Repeated = n[1], Millis(n[2]), len(n) > 3 && n[3] == 1
	case AcquireElsewhere:
		r.Token, _ = strconv.ParseInt(textAt(reply, 1), 10, 64)
		r.Carrier, r.ID = textAt(reply, 2), textAt(reply, 3)
	case AcquireInGrace:
		r.Master = textAt(reply, 1)
	}
	return r, true
}

// acquireReplies are the replies of the script by their first integer: what each means, and how
// many items it has.
var acquireReplies = [...]struct {
	outcome     AcquireOutcome
	least, most int
}{
	{AcquireTaken, 2, 3}, {AcquireGranted, 3, 4}, {AcquireElsewhere, 4, 4}, {AcquireGone, 1, 1},
	{AcquireStale, 1, 1}, {AcquireOtherMode, 1, 1}, {AcquireInGrace, 2, 2}, {AcquireAgain, 1, 1},
}

// prepare makes the call. It keeps the memory of the call before.
func (a *Acquisition) prepare(c *Client, args *AcquireArgs) {
	m, key, g := args.Mode, args.Lock.Key, &args.Grant
	call := &a.call
	call.Script, call.DB = m.Acquire, args.Lock.DB
	if call.WantReplicas, call.ReplicaTimeout = args.Replicas, args.ReplicasIn; args.Replicas > 0 {
		call.Script = m.AcquireReplicated
	}
	call.Keys = m.Keys(key, TokenKey(key), TurnsKey(key))
	if call.Args == nil {
		call.Args = make([]string, 0, 14)
	}
	call.Args = append(g.appendWho(call.Args[:0]), decimal(args.Token))
	call.Args = append(g.appendWhat(call.Args), args.Turn, string(args.Place), args.TurnEvent)
	if m.Fair {
		alive := ""
		if args.FairFor > 0 {
			alive = millisText(args.FairFor)
		}
		call.Keys = append(call.Keys, m.Queue(key)...)
		call.Args = append(call.Args, alive, m.Channel(key), c.Publish, args.FairBit)
	}
}
