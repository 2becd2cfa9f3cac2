package script

import "time"

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
	Token   int64         // of the grant
	Left    time.Duration // of the grant, from Sent on
	Others  int64         // other Leashes that wait
	Sent    time.Time
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
	call := &scriptCall{
		Script: m.Handover, DB: end.Hold.Lock.DB, Keys: m.EndKeys(key, TokenKey(key), TurnsKey(key)),
		MinKeys: m.MinKeys() + 1, Args: list,
	}
	r, err = answer(c, call, until, handoverResult)
	r.Sent = call.Sent
	return r, call.OutcomeUnknown, err
}

// handoverResult reads the reply. ok is false if the script has no such reply.
func handoverResult(reply any) (r HandoverResult, ok bool) {
	n, ok := listOf(reply)
	if !ok {
		return r, false
	}
	switch r.Answer = n[0]; {
	case len(n) == 1:
		return r, isEndAnswer(n[0])
	case n[0] != HoldEnded || len(n) < 3 || len(n) > 4:
		return r, false
	}
	r.Granted, r.Token, r.Left = true, n[1], Millis(n[2])
	if len(n) == 4 {
		r.Others = n[3]
	}
	return r, true
}
