package script

import (
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/script/transport"
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
	return append(args, g.Owner, g.Carrier, transport.Decimal(g.Request))
}

// appendWhat appends what the grant writes.
func (g *GrantTerms) appendWhat(args []string) []string {
	return append(args, transport.MillisText(g.TTL), g.Options, transport.MillisText(g.TokenTTL), RecordID(g.ID),
		recordClient(g.Client), g.Ext, g.Master)
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
	Replicas   int64         // that must have the grant; 0 for none
	ReplicasIn time.Duration // how long the grant waits for them
}

// Acquisition is one request for a lock. It may be sent several times and acts once (R7). One
// goroutine at a time may use it.
type Acquisition struct{ call transport.Call }

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
// error is ErrUnknown, ErrRefused, or Redis's own. unknown tells that a copy may still be on its
// way, also without an error.
func (c *Client) Acquire(a *Acquisition, args *AcquireArgs, until time.Time) (
	r AcquireResult, unknown bool, err error,
) {
	a.prepare(c, args)
	r, err = transport.Ask(c.Client, &a.call, until, acquireResult)
	r.Sent, r.Replicas = a.call.Sent, a.call.GotReplicas
	return r, a.call.OutcomeUnknown, err
}

// acquireResult reads the reply. ok is false if the script has no such reply.
func acquireResult(reply any) (r AcquireResult, ok bool) {
	n, kinds := transport.Items(reply)
	if kinds == "" || n[0] < 0 || n[0] >= int64(len(acquireReplies)) {
		return r, false
	}
	shape := acquireReplies[n[0]]
	if len(kinds) < shape.least || !strings.HasPrefix(shape.kinds, kinds) {
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
		r.Token, _ = strconv.ParseInt(transport.TextAt(reply, 1), 10, 64)
		r.Carrier, r.ID = transport.TextAt(reply, 2), transport.TextAt(reply, 3)
	case AcquireInGrace:
		r.Master = transport.TextAt(reply, 1)
	}
	return r, true
}

// acquireReplies are the replies of the script by their first integer: what each means, which items
// it has at most, and how many at least.
var acquireReplies = [...]struct {
	outcome AcquireOutcome
	kinds   string
	least   int
}{
	{AcquireTaken, "iii", 2}, {AcquireGranted, "iiii", 3}, {AcquireElsewhere, "isss", 4}, {AcquireGone, "i", 1},
	{AcquireStale, "i", 1}, {AcquireOtherMode, "i", 1}, {AcquireInGrace, "is", 2}, {AcquireAgain, "i", 1},
}

// prepare makes the call. It keeps the memory of the call before.
func (a *Acquisition) prepare(c *Client, args *AcquireArgs) {
	m, key, g := args.Mode, args.Lock.Key, &args.Grant
	call := &a.call
	call.Script, call.DB, call.OutcomeUnknown = m.Acquire, args.Lock.DB, false
	if call.WantReplicas, call.ReplicaTimeout = args.Replicas, args.ReplicasIn; args.Replicas > 0 {
		call.Script, call.Touch = m.acquireReplicated, TouchScript
	}
	call.Keys = m.Keys(key, TokenKey(key), TurnsKey(key))
	if call.Args == nil {
		call.Args = make([]string, 0, 14)
	}
	call.Args = append(g.appendWho(call.Args[:0]), transport.Decimal(args.Token))
	call.Args = append(g.appendWhat(call.Args), args.Turn, string(args.Place), args.TurnEvent)
	if m.Fair {
		alive := ""
		if args.FairFor > 0 {
			alive = transport.MillisText(args.FairFor)
		}
		call.Keys = append(call.Keys, m.Queue(key)...)
		call.Args = append(call.Args, alive, m.Channel(key), c.Publish)
	}
}

// UndoArgs say which acquire to take back.
type UndoArgs struct {
	Lock           Lock
	Mode           *Mode
	Owner, Carrier string
	Acquire        int64 // the request number of the acquire
	Number         int64 // the request number of the undo
	Keep           int64 // the hold with this token stays; 0 for none
}

// Undo takes back an acquire of unknown outcome. It sends the script until Redis answers. It
// returns false if the client is stopped first.
func (c *Client) Undo(args UndoArgs) (answered bool) {
	m, key := args.Mode, args.Lock.Key
	return c.AskUntilAnswered(&transport.Call{
		Script: m.Undo, DB: args.Lock.DB, Keys: m.EndKeys(key), MinKeys: m.MinKeys(),
		Args: transport.Words(args.Owner, args.Carrier, args.Acquire, args.Number, m.Channel(key), c.Publish,
			args.Keep),
	})
}

// UndoPermits gives back those of the permits that the carrier's acquire with that number took. A
// grant with a token up to keep stays. It sends the script until Redis answers. It returns false if
// the client is stopped first.
func (c *Client) UndoPermits(lock Lock, carrier string, acquire, keep int64, permits []string) (answered bool) {
	return c.AskUntilAnswered(&transport.Call{
		Script: permitUndoScript, DB: lock.DB, Keys: SemaphoreKeys(lock.Key),
		Args: append(transport.Words(carrier, acquire, PermitChannel(lock.Key), c.Publish, keep), permits...),
	})
}

// Dequeue takes owners that gave up out of the queue of a FAIR lock.
func (c *Client) Dequeue(lock Lock, owners []string, until time.Time) error {
	_, err := c.AskInt(&transport.Call{
		Script: dequeueScript, DB: lock.DB, Keys: Fair.EndKeys(lock.Key),
		Args: append([]string{Fair.Channel(lock.Key), c.Publish}, owners...),
	}, until)
	return err
}

// LeaveTurns takes an entry out of the list of turns. If the lock is reserved for it, the next one
// gets its turn. Without an answer its reservation runs out.
func (c *Client) LeaveTurns(lock Lock, m *Mode, entry, event string, until time.Time) {
	word := "0"
	if m == Permit { // how many are available
		word = "1"
	}
	_, _ = c.AskInt(&transport.Call{
		Script: leaveTurnsScript, DB: lock.DB, Keys: []string{TurnsKey(lock.Key)},
		Args: []string{entry, event, m.Channel(lock.Key), c.Publish, word},
	}, until)
}
