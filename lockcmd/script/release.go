package script

import "time"

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
	return append(make([]string, 0, 5+more), a.Owner, decimal(a.Hold.Token), a.Hold.Carrier, decimal(a.Request), a.What)
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
// given time. It may be called several times with the same arguments, and acts once (R7).
func (c *Client) Release(args *ReleaseArgs, until time.Time) (answer int64, err error) {
	if args.PerKeyCounts == 0 {
		end := &args.End
		if answer, err = c.release(args, until); end.Mode.ReleaseKey == nil || !KeysSplit(err) {
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
	call := &scriptCall{
		Script: m.Release, DB: end.Hold.Lock.DB, Keys: m.ReleaseKeys(key),
		MinKeys:        m.MinKeys(),
		Args:           append(end.list(5), m.Channel(key), c.Publish, args.Turn, waits, args.TurnEvent),
		OutcomeUnknown: args.Unknown,
	}
	return c.askEnd(args, call, until)
}

func (c *Client) askEnd(args *ReleaseArgs, call *scriptCall, until time.Time) (code int64, err error) {
	code, err = answer(c, call, until, endAnswer)
	args.Unknown = args.Unknown || call.OutcomeUnknown
	return code, err
}

// endAnswer reads the reply. ok is false if the script has no such reply.
func endAnswer(reply any) (code int64, ok bool) {
	code, ok = reply.(int64)
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

func (a *RevokeArgs) call(c *Client) *scriptCall {
	m, all, channel := a.Mode, "", ""
	if a.All {
		all = "all"
	}
	if a.Ended != "" {
		channel = CarrierChannel(a.Hold.Carrier)
	}
	return &scriptCall{
		Script: m.Revoke, DB: a.Hold.Lock.DB, OutcomeUnknown: a.Unknown,
		Keys: m.EndKeys(a.Hold.Lock.Key, a.Hold.tombstone(), AnswerKey(a.Hold.Lock.Key, a.AnswerID)),
		Args: words(
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

func (c *Client) revoke(args *RevokeArgs, call *scriptCall, until time.Time) (code int64, err error) {
	code, err = answer(c, call, until, func(reply any) (int64, bool) {
		code, ok := endAnswer(reply)
		return code, ok && code != StaleRequest
	})
	args.Unknown = args.Unknown || call.OutcomeUnknown
	return code, err
}
