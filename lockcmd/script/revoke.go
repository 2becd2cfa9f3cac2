package script

import (
	"strconv"
	"time"
)

// RevokeArgs say which hold is released by somebody else than its carrier, or with a client's ID.
type RevokeArgs struct {
	Mode     *Mode
	Owner    string
	Hold     Ref
	All      bool   // not just one count
	AnswerID string // the answer is kept under this ID
	Keep     time.Duration
	// The events for the Leash of the carrier, when the hold ends or counts remain; "" if this
	// Leash is it.
	Ended, Decremented string
	// Unknown tells that a copy of the request may still be on its way. The functions set it.
	Unknown bool
}

func (a *RevokeArgs) call(c *Client) *Call {
	m, all, channel := a.Mode, "", ""
	if a.All {
		all = "all"
	}
	if a.Ended != "" {
		channel = CarrierChannel(a.Hold.Carrier)
	}
	return &Call{
		Script: m.Revoke, DB: a.Hold.Lock.DB, OutcomeUnknown: a.Unknown,
		Keys: m.EndKeys(a.Hold.Lock.Key, a.Owner, a.Hold.tombstone(), AnswerKey(a.Hold.Lock.Key, a.AnswerID)),
		Args: Args(
			a.Owner, a.Hold.Token, a.Hold.Carrier, all, m.Channel(a.Hold.Lock.Key), c.Publish, a.Keep.Milliseconds(),
			channel, a.Ended, a.Decremented,
		),
	}
}

// Revoke takes a count of a hold back, or ends it. It keeps the answer and writes a tombstone. It
// blocks until Redis answers, or until the given time. It may be called several times with the same
// arguments, and acts once (R7). The answer is HoldEnded, CountsRemain or NoSuchHold.
func (c *Client) Revoke(args *RevokeArgs, until time.Time) (answer int64, err error) {
	call := args.call(c)
	reply, err := c.Ask(call, until)
	return c.revoked(args, call, reply, err)
}

// RevokeOwnKeys is Revoke for a slot migration (R14): the caller keeps the answer and writes the
// tombstone. It waits while the migration splits the keys of the hold.
func (c *Client) RevokeOwnKeys(args *RevokeArgs, until time.Time) (answer int64, err error) {
	call := args.call(c)
	call.Keys = args.Mode.Keys(args.Hold.Lock.Key, args.Owner)
	reply, err := c.AskThroughMigration(call, until)
	return c.revoked(args, call, reply, err)
}

func (c *Client) revoked(args *RevokeArgs, call *Call, reply any, err error) (int64, error) {
	args.Unknown = args.Unknown || call.OutcomeUnknown
	if err != nil {
		return 0, err
	}
	answer, ok := reply.(int64)
	if !ok || answer == StaleRequest || !isEndAnswer(answer) {
		args.Unknown = true
		return 0, c.badShape(call)
	}
	return answer, nil
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
// be called several times with the same arguments, and acts once.
func (c *Client) RevokePermit(args *PermitRevokeArgs, until time.Time) (PermitRevokeResult, error) {
	lock, token, channel, event := args.Hold.Lock, "", "", ""
	call := &Call{Script: PermitRevokeScript, DB: lock.DB, Keys: SemaphoreKeys(lock.Key), OutcomeUnknown: args.Unknown}
	if args.Hold.Carrier != "" {
		token, channel, event = Decimal(args.Hold.Token), CarrierChannel(args.Hold.Carrier), args.Event
		call.Keys = append(call.Keys, args.Hold.tombstone())
	}
	call.Args = Args(
		args.Permit, token, args.Hold.Carrier, PermitChannel(lock.Key), c.Publish, args.Keep.Milliseconds(),
		channel, event,
	)
	reply, err := c.Ask(call, until)
	args.Unknown = args.Unknown || call.OutcomeUnknown
	if err != nil {
		return PermitRevokeResult{}, err
	}
	r, ok := permitRevokeResult(reply, lock)
	if !ok {
		args.Unknown = true
		return r, c.badShape(call)
	}
	return r, nil
}

// permitRevokeResult reads the reply. ok is false if the script has no such reply.
func permitRevokeResult(reply any, lock Lock) (r PermitRevokeResult, ok bool) {
	n, ok := listOf(reply)
	switch {
	case !ok:
		return r, false
	case len(n) == 1 && (n[0] == HoldEnded || n[0] == NoSuchHold):
		r.Given = n[0] == HoldEnded
		return r, true
	case len(n) != 4 || n[0] != -2:
		return r, false
	}
	r.Changed, r.TTL = true, Millis(n[3])
	r.Hold = Ref{Lock: lock, Carrier: TextAt(reply, 2)}
	r.Hold.Token, _ = strconv.ParseInt(TextAt(reply, 1), 10, 64)
	return r, true
}
