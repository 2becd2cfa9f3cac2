package script

import (
	"time"

	"leash/lockcmd/script/transport"
)

// EndArgs say which hold a release ends. They are for the Leash that carries it.
type EndArgs struct {
	Mode    *Mode
	Owner   string
	Hold    Ref
	Request int64  // number of the request among those of the carrier
	What    string // "all", "" for one count, or the ID of the acquire that is put back, as in a record
}

// list are the arguments that all these scripts begin with. There is room for so many more.
func (a *EndArgs) list(more int) []string {
	return append(make([]string, 0, 5+more), a.Owner, transport.Decimal(a.Hold.Token), a.Hold.Carrier,
		transport.Decimal(a.Request), a.What)
}

// The answers of scripts that end holds.
const (
	HoldEnded    = 1  // the hold has ended
	CountsRemain = 0  // counts of it remain
	NoSuchHold   = -1 // there is no such hold
	StaleRequest = -2 // a later request came before this one; nothing was done
)

func isEndAnswer(n int64) bool { return StaleRequest <= n && n <= HoldEnded }

// ReleaseArgs say which hold a release ends, and how it tells waiters that the lock is free.
type ReleaseArgs struct {
	End       EndArgs
	Turn      string // the entry of this Leash in the list of turns
	Waits     bool   // somebody waits for the lock here
	TurnEvent string // for the Leash whose turn it is
	// Release sets the fields below, which are to be kept for a repetition.

	Unknown bool // a copy of the request may still be on its way
	// PerKeyCounts is how many counts the hold has, if a slot migration splits its keys. They are
	// released one by one from then on, because the records and the lock differ. 0 if not.
	PerKeyCounts int64
}

// Release takes a count of a hold back, or ends it. It blocks until Redis answers, or until the
// given time. It may be called several times with the same arguments, and acts once (R7). If a slot
// migration splits the keys of a permit, Release waits for its end (R14).
func (c *Client) Release(args *ReleaseArgs, until time.Time) (answer int64, err error) {
	if args.PerKeyCounts == 0 {
		end := &args.End
		if answer, err = c.release(args, until); end.Mode.ReleaseKey == nil || !transport.KeysSplit(err) {
			return answer, err
		}
		if args.PerKeyCounts, err = c.countsOf(end.Hold.Lock, end.Mode, end.Owner, until); err != nil {
			return 0, err
		}
	}
	return c.releaseKeys(args, until)
}

// release is Release with all keys in one script.
func (c *Client) release(args *ReleaseArgs, until time.Time) (answer int64, err error) {
	end, waits := &args.End, ""
	if args.Waits {
		waits = "1"
	}
	m, key := end.Mode, end.Hold.Lock.Key
	call := &transport.Call{
		Script: m.Release, DB: end.Hold.Lock.DB, Keys: m.ReleaseKeys(key),
		MinKeys:        m.MinKeys(),
		Args:           append(end.list(5), m.Channel(key), c.Publish, args.Turn, waits, args.TurnEvent),
		OutcomeUnknown: args.Unknown, OutlastsMigration: m == Permit,
	}
	return c.askEnd(args, call, until)
}

func (c *Client) askEnd(args *ReleaseArgs, call *transport.Call, until time.Time) (code int64, err error) {
	code, err = transport.Ask(c.Client, call, until, endAnswer)
	args.Unknown = args.Unknown || call.OutcomeUnknown
	return code, err
}

// endAnswer reads the reply. ok is false if the script has no such reply.
func endAnswer(reply any) (code int64, ok bool) {
	code, ok = transport.Int(reply)
	return code, ok && isEndAnswer(code)
}

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

func (a *RevokeArgs) call(c *Client) *transport.Call {
	m, all, channel := a.Mode, "", ""
	if a.All {
		all = "all"
	}
	if a.Ended != "" {
		channel = CarrierChannel(a.Hold.Carrier)
	}
	return &transport.Call{
		Script: m.Revoke, DB: a.Hold.Lock.DB, OutcomeUnknown: a.Unknown,
		Keys: m.EndKeys(a.Hold.Lock.Key, a.Hold.tombstone(), AnswerKey(a.Hold.Lock.Key, a.AnswerID)),
		Args: transport.Words(
			a.Owner, a.Hold.Token, a.Hold.Carrier, all, m.Channel(a.Hold.Lock.Key), c.Publish, a.Keep.Milliseconds(),
			channel, a.Ended, a.Decremented,
		),
	}
}

// Revoke takes a count of a hold back, or ends it. It keeps the answer and writes a tombstone. It
// blocks until Redis answers, or until the given time. It may be called several times with the same
// arguments, and acts once (R7). The answer is HoldEnded, CountsRemain or NoSuchHold.
func (c *Client) Revoke(args *RevokeArgs, until time.Time) (answer int64, err error) {
	return c.revoke(args, args.call(c), until)
}

// RevokeOwnKeys is Revoke for a slot migration (R14): the caller keeps the answer and writes the
// tombstone. It waits while the migration splits the keys of the hold.
func (c *Client) RevokeOwnKeys(args *RevokeArgs, until time.Time) (answer int64, err error) {
	call := args.call(c)
	call.Keys, call.OutlastsMigration = args.Mode.Keys(args.Hold.Lock.Key), true
	return c.revoke(args, call, until)
}

func (c *Client) revoke(args *RevokeArgs, call *transport.Call, until time.Time) (code int64, err error) {
	code, err = transport.Ask(c.Client, call, until, func(reply any) (int64, bool) {
		code, ok := endAnswer(reply)
		return code, ok && code != StaleRequest
	})
	args.Unknown = args.Unknown || call.OutcomeUnknown
	return code, err
}

// HandoverArgs say which hold ends, and who gets the lock.
type HandoverArgs struct {
	End       EndArgs
	Grant     GrantTerms
	Mode      *Mode  // the waiter's
	Turn      string // the entry of this Leash in the list of turns
	TurnOver  bool   // the turn of this Leash ends if another Leash comes first
	TurnEvent string // for the Leash whose turn it is
}

// HandoverResult is what a hand-over did.
type HandoverResult struct {
	Answer  int64 // HoldEnded, CountsRemain, NoSuchHold or StaleRequest
	Granted bool
	Token   int64         // of the grant of a lock
	Left    time.Duration // of the grant of a lock, from Sent on
	Others  int64         // other Leashes that wait
	Sent    time.Time
	// of permits:
	Available int64         // after the grant
	Grants    []PermitGrant // in the order of the request
}

// Handover ends a hold and grants the lock to a waiter in one step. It blocks until Redis answers,
// or until the given time. It carries the number of the release, so it acts only if that has not.
// unknown tells that a copy may still be on its way, also without an error.
func (c *Client) Handover(args *HandoverArgs, until time.Time) (r HandoverResult, unknown bool, err error) {
	end, grant := &args.End, &args.Grant
	m, key, turnOver := end.Mode, end.Hold.Lock.Key, ""
	if args.TurnOver {
		turnOver = "1"
	}
	list := append(grant.appendWhat(grant.appendWho(end.list(16))),
		m.Channel(key), c.Publish, args.Mode.Name, args.Turn, turnOver, args.TurnEvent)
	call := &transport.Call{
		Script: m.Handover, DB: end.Hold.Lock.DB, Keys: m.EndKeys(key, TokenKey(key), TurnsKey(key)), Args: list,
	}
	if !args.Mode.Fair { // a FAIR waiter must leave its queue, too
		call.MinKeys = m.MinKeys() + 1
	}
	r, err = transport.Ask(c.Client, call, until, handoverResult)
	r.Sent = call.Sent
	return r, call.OutcomeUnknown, err
}

// handoverResult reads the reply. ok is false if the script has no such reply.
func handoverResult(reply any) (r HandoverResult, ok bool) {
	n, kinds := transport.Items(reply)
	switch kinds {
	case "i":
		r.Answer = n[0]
		return r, isEndAnswer(n[0])
	case "iii":
	case "iiii":
		r.Others = n[3]
	default:
		return r, false
	}
	r.Answer, r.Granted, r.Token, r.Left = n[0], true, n[1], Millis(n[2])
	return r, n[0] == HoldEnded
}
