package restore

import (
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/renewal"
)

// Move takes a hold from another carrier to a new one, as its owner wants: by ATTACH, or by an
// acquire that repeats the hold's last request (R4). The old carrier is told. One goroutine at a
// time uses it.
type Move struct {
	Args script.MoveArgs // ReplicasIn may be set before each Send

	restorer *Restorer
	// the hold on this Leash, if it is here. Its requests stay locked during a request and while
	// the outcome is unknown.
	old            *hold.Hold
	requestsLocked bool // the requests of old
}

// NewMove makes a move to a carrier of this Leash. args say which hold, with the number of the
// request, and with the ID of the acquire in the form of a record; an ATTACH has none. Keep is the
// TTL of the hold. NewMove sets the carrier, the tombstone and the event. It does not block.
func (r *Restorer) NewMove(to *hold.Carrier, args script.MoveArgs) *Move {
	from, text := args.From, event.Moved
	if args.ID != "" {
		text = event.Repeated
	}
	m := &Move{Args: args, restorer: r, old: r.Holds.FindRef(from)}
	m.Args.Carrier, m.Args.Client, m.Args.Tombstone = to.Name, to.Client().Name, text+" "+to.Name
	m.Args.Keep = max(args.Keep, r.Holds.TTL)
	if m.old == nil {
		m.Args.Event = event.Text(text, from.Token, from.Carrier, from.Lock.Key)
	}
	return m
}

// Send sends the move, and settles the old hold. It blocks until Redis answers, at most until that
// time. After transport.ErrUnknown it may be called again, and acts once; Unlock must follow at
// last.
func (m *Move) Send(until time.Time) (r script.MoveResult, err error) {
	if m.old != nil && !m.requestsLocked {
		if m.requestsLocked = m.old.LockRequests(until); !m.requestsLocked {
			return r, transport.ErrRefused
		}
	}
	r, err = m.restorer.Redis.Move(&m.Args, until)
	if err != nil || !r.Moved {
		return r, err
	}
	r.Age = max(r.Age, 0)
	if m.old == nil {
		return r, nil
	}
	if left := m.old.MaxHoldLeft(r.Sent); left < script.MaxTTL {
		r.Age = r.Record.Terms().MaxHold - left
	}
	if m.Args.ID == "" {
		m.old.Ended(renewal.Moved)
	} else {
		m.old.Ended(renewal.Repeated)
	}
	return r, nil
}

// Unlock lets other requests about the old hold begin. The outcome must be known, or the hold must
// be over.
func (m *Move) Unlock() {
	if m.requestsLocked {
		m.requestsLocked = false
		m.old.UnlockRequests()
	}
}
