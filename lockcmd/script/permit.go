package script

import (
	"context"
	"strconv"
	"time"

	"leash/lockcmd/script/transport"
)

// PermitRequest says who wants permits of a semaphore, and which. It gets all or none.
type PermitRequest struct {
	Lock       Lock
	Grant      GrantTerms // without an owner, a token counter and pairs of the record
	Permits    []string   // 32 hex digits each
	FirstToken int64      // of the hold of the first permit; the others follow
	Turn       string     // the entry of this Leash in the list of turns
	Waits      bool       // if there are too few
	Behind     Behind
	TurnEvent  string // for the Leash whose turn it is
}

// Behind says who waits for permits on this Leash behind the request.
type Behind string

// The values of Behind.
const (
	BehindNobody Behind = ""
	BehindLater  Behind = "0" // waiters that the turn of this Leash does not last for
	BehindTurn   Behind = "1" // a waiter that it lasts for
)

// PermitGrant is a permit that was granted.
type PermitGrant struct {
	Token int64
	Left  time.Duration // from Sent on
}

// PermitAcquireResult is what the acquire of permits did.
type PermitAcquireResult struct {
	Outcome   AcquireOutcome // AcquireTaken, AcquireGranted, AcquireElsewhere or AcquireInGrace
	Available int64          // after the grant
	Grants    []PermitGrant  // in the order of the request
	Sent      time.Time
	// If too few are available: how long until some may be, negative if nobody knows.
	Left time.Duration
	// The permit that another carrier has. Its token is 0 if its record is unreadable.
	Permit, Carrier string
	Token           int64
	Master          string // replication id of the master that may not grant
}

// AcquirePermits tries once to take permits. It blocks until Redis answers, or until the given
// time. It may be called several times with the same permits, and acts once. unknown tells that a
// copy may still be on its way, also without an error.
func (c *Client) AcquirePermits(r *PermitRequest, until time.Time) (
	result PermitAcquireResult, unknown bool, err error,
) {
	waits := ""
	if r.Waits {
		waits = "1"
	}
	args := append(r.appendGrant(c, make([]string, 0, 13+2*len(r.Permits))), waits, string(r.Behind), r.TurnEvent)
	call := &transport.Call{
		Script: PermitAcquireScript, DB: r.Lock.DB, Keys: append(SemaphoreKeys(r.Lock.Key), TurnsKey(r.Lock.Key)),
		Args: r.appendPermits(args),
	}
	result, err = transport.Ask(c.Client, call, until, func(reply any) (PermitAcquireResult, bool) {
		return permitAcquireResult(reply, len(r.Permits))
	})
	result.Sent = call.Sent
	return result, call.OutcomeUnknown, err
}

// appendGrant appends what the grant writes, up to the entry in the list of turns.
func (r *PermitRequest) appendGrant(c *Client, args []string) []string {
	g := &r.Grant
	return append(args, g.Carrier, transport.Decimal(g.Request), transport.MillisText(g.TTL), g.Options, RecordID(g.ID),
		recordClient(g.Client), PermitChannel(r.Lock.Key), c.Publish, g.Master, r.Turn)
}

// appendPermits appends the permits with their tokens.
func (r *PermitRequest) appendPermits(args []string) []string {
	for i, permit := range r.Permits {
		args = append(args, permit, transport.Decimal(r.FirstToken+int64(i)))
	}
	return args
}

// permitAcquireResult reads the reply about so many permits. ok is false if the script has no such
// reply.
func permitAcquireResult(reply any, permits int) (r PermitAcquireResult, ok bool) {
	switch n, kinds := transport.Items(reply); {
	case kinds == "ii" && n[0] == 0:
		r.Left = Millis(n[1])
	case kinds == transport.Ints(2+2*permits) && n[0] == 1:
		r.Outcome, r.Available, r.Grants = AcquireGranted, n[1], permitGrants(n[2:])
	case kinds == "isss" && n[0] == 2:
		r.Outcome, r.Permit, r.Carrier = AcquireElsewhere, transport.TextAt(reply, 1), transport.TextAt(reply, 3)
		r.Token, _ = strconv.ParseInt(transport.TextAt(reply, 2), 10, 64)
	case kinds == "is" && n[0] == 6:
		r.Outcome, r.Master = AcquireInGrace, transport.TextAt(reply, 1)
	default:
		return r, false
	}
	return r, true
}

// permitGrants reads pairs of a token and ms.
func permitGrants(n []int64) []PermitGrant {
	grants := make([]PermitGrant, len(n)/2)
	for i := range grants {
		grants[i] = PermitGrant{Token: n[2*i], Left: Millis(n[2*i+1])}
	}
	return grants
}

// HandOverPermit gives a permit back and grants a waiter its request in one step. It blocks until
// Redis answers, or until the given time. It may be called several times, and acts once. unknown
// tells that a copy may still be on its way, also without an error.
func (c *Client) HandOverPermit(permit string, hold Ref, r *PermitRequest, until time.Time) (
	result HandoverResult, unknown bool, err error,
) {
	args := append(make([]string, 0, 15+2*len(r.Permits)), permit, transport.Decimal(hold.Token), hold.Carrier)
	args = append(r.appendGrant(c, args), string(r.Behind), r.TurnEvent)
	keys := SemaphoreKeys(r.Lock.Key)
	call := &transport.Call{
		Script: PermitHandoverScript, DB: r.Lock.DB, Keys: append(keys, TurnsKey(r.Lock.Key)), MinKeys: len(keys),
		Args: r.appendPermits(args),
	}
	result, err = transport.Ask(c.Client, call, until, func(reply any) (HandoverResult, bool) {
		return permitHandoverResult(reply, len(r.Permits))
	})
	result.Sent = call.Sent
	return result, call.OutcomeUnknown, err
}

// permitHandoverResult reads the reply about so many permits. ok is false if the script has no such
// reply.
func permitHandoverResult(reply any, permits int) (r HandoverResult, ok bool) {
	switch n, kinds := transport.Items(reply); {
	case kinds == "i" && (n[0] == HoldEnded || n[0] == NoSuchHold):
		r.Answer = n[0]
	case kinds == transport.Ints(3+2*permits) && n[0] == HoldEnded:
		r = HandoverResult{Answer: HoldEnded, Granted: true, Others: n[1], Available: n[2], Grants: permitGrants(n[3:])}
	default:
		return r, false
	}
	return r, true
}

// PermitRevokeArgs say which permit is given back by somebody else than its carrier.
type PermitRevokeArgs struct {
	Permit string
	Hold   Ref // as its record says; without a token and a carrier if it has no record
	Keep   time.Duration
	Event  string // for the Leash of the carrier
	// Unknown tells that a copy of the request may still be on its way. RevokePermit sets it.
	Unknown bool
}

// PermitRevokeResult is what the revoking of a permit did.
type PermitRevokeResult struct {
	Given   bool
	Changed bool          // the record says something else than Hold; nothing was done
	Hold    Ref           // what it says then
	TTL     time.Duration // in the record
}

// RevokePermit gives a permit back. It blocks until Redis answers, or until the given time. It may
// be called several times with the same arguments, and acts once. It waits while a slot migration
// splits the keys (R14).
func (c *Client) RevokePermit(args *PermitRevokeArgs, until time.Time) (PermitRevokeResult, error) {
	lock, token, channel, event := args.Hold.Lock, "", "", ""
	call := &transport.Call{
		Script: PermitRevokeScript, DB: lock.DB, Keys: SemaphoreKeys(lock.Key), OutcomeUnknown: args.Unknown,
		OutlastsMigration: true,
	}
	if args.Hold.Carrier != "" {
		token, channel, event = transport.Decimal(args.Hold.Token), CarrierChannel(args.Hold.Carrier), args.Event
		call.Keys = append(call.Keys, args.Hold.tombstone())
	}
	call.Args = transport.Words(
		args.Permit, token, args.Hold.Carrier, PermitChannel(lock.Key), c.Publish, args.Keep.Milliseconds(),
		channel, event,
	)
	r, err := transport.Ask(c.Client, call, until, permitRevokeResult)
	args.Unknown, r.Hold.Lock = call.OutcomeUnknown, lock
	return r, err
}

// permitRevokeResult reads the reply. ok is false if the script has no such reply.
func permitRevokeResult(reply any) (r PermitRevokeResult, ok bool) {
	switch n, kinds := transport.Items(reply); {
	case kinds == "i" && (n[0] == HoldEnded || n[0] == NoSuchHold):
		r.Given = n[0] == HoldEnded
	case kinds == "issi" && n[0] == -2:
		r.Changed, r.TTL = true, Millis(n[3])
		r.Hold.Carrier = transport.TextAt(reply, 2)
		r.Hold.Token, _ = strconv.ParseInt(transport.TextAt(reply, 1), 10, 64)
	default:
		return r, false
	}
	return r, true
}

// HasPermit reports whether Redis has a record of the permit.
func (c *Client) HasPermit(ctx context.Context, lock Lock, permit string) (bool, error) {
	records := SemaphoreKeys(lock.Key)[2]
	reply, err := c.Do(c.limit(ctx), lock.DB, transport.Command{
		Key: records, Words: []string{"HEXISTS", records, permit},
	})
	n, _ := transport.Reply{Text: reply, Err: err}.Int()
	return n == 1, err
}
