package script

import (
	"time"

	"leash/lockcmd/script/transport"
)

// MoveArgs say which hold gets another carrier.
type MoveArgs struct {
	Mode    *Mode
	Owner   string
	From    Ref    // the hold as it is
	Last    string // number of its last request in the record, "" for any
	ID      string // of that request, as in a record, "" for any
	Carrier string // the new one
	Request int64  // number of the request among those of the new carrier
	Client  string
	// The tombstone of the old carrier, and how long it lives at least, in whole ms.
	Tombstone  string
	Keep       time.Duration
	Event      string        // for the Leash of the old carrier; "" if this Leash is it
	Replicas   int64         // that must have the move; 0 for none
	ReplicasIn time.Duration // how long the move waits for them
	// Unknown tells that a copy of the request may still be on its way. Move sets it.
	Unknown bool
}

// MoveResult is what a move did.
type MoveResult struct {
	Moved    bool // false: there is no such hold, or it has changed
	Token    int64
	Left     time.Duration // from Sent on
	Count    int64
	Age      time.Duration // negative after a step back of Redis's clock
	Record   Record
	Sent     time.Time
	Replicas int64 // that have the move, if it asked for some
}

// Move gives a hold another carrier. It blocks until Redis answers, or until the given time. It may
// be called several times with the same arguments, and acts once (R7). If a slot migration splits
// the keys, LOCK.ATTACH waits for its end, and an acquire with that ID does not (R14).
func (c *Client) Move(args *MoveArgs, until time.Time) (MoveResult, error) {
	m, from, channel := args.Mode, args.From, ""
	if args.Event != "" {
		channel = CarrierChannel(from.Carrier)
	}
	call := &transport.Call{
		Script: m.Move, DB: from.Lock.DB, OutlastsMigration: args.ID == "",
		Keys: m.Keys(from.Lock.Key, from.tombstone(), TombstoneKey(from.Lock.Key, from.Token, args.Carrier)),
		Args: transport.Words(
			args.Owner, from.Token, from.Carrier, args.Last, args.ID, args.Carrier, args.Request,
			recordClient(args.Client),
			args.Tombstone, args.Keep.Milliseconds(), channel, args.Event,
		),
		WantReplicas: args.Replicas, Touch: TouchScript, ReplicaTimeout: args.ReplicasIn, OutcomeUnknown: args.Unknown,
	}
	r, err := transport.Ask(c.Client, call, until, moveResult)
	args.Unknown = call.OutcomeUnknown
	r.Sent, r.Replicas = call.Sent, call.GotReplicas
	return r, err
}

// moveResult reads the reply. ok is false if the script has no such reply.
func moveResult(reply any) (r MoveResult, ok bool) {
	switch n, kinds := transport.Items(reply); {
	case kinds == "i" && n[0] == NoSuchHold:
		return r, true
	case kinds == "iiiiis" && n[0] == 1:
		r = MoveResult{Moved: true, Token: n[1], Left: Millis(n[2]), Count: n[3], Age: Millis(n[4])}
		r.Record, _ = ParseRecord(transport.TextAt(reply, 5))
		return r, true
	}
	return r, false
}
