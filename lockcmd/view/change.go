package view

import (
	"time"

	"leash/lockcmd/hold"
)

// Observer is told what happens to the holds of a Leash. Its methods must not block. They are
// called by many goroutines at once.
type Observer interface {
	// Watches reports whether Observe is to be called for more than losses.
	Watches() bool
	Observe(Change)
}

// Change is something that happened to a hold.
type Change struct {
	Kind   Kind
	DB     int
	Key    string
	Mode   string
	Owner  string
	Token  int64
	Client hold.Client
	Waited time.Duration // of a grant: how long its command has waited
	Held   time.Duration // for how long a carrier of this Leash has had it
	Reason string        // of a loss, as in the log; empty otherwise
}

// Kind says what happened to a hold.
type Kind string

// The kinds of changes. After a loss, the end of the hold may follow.
const (
	Granted  Kind = "granted"  // an owner got it, or it was moved to this Leash
	Released Kind = "released" // it has ended
	Moved    Kind = "moved"    // another connection has it now
	Expiring Kind = "expiring" // its connection has ended, and it runs out
	Lost     Kind = "lost"
)

func changeOf(h *hold.Hold, kind Kind, reason string) Change {
	return Change{
		Kind: kind, DB: h.Lock().DB, Key: h.Key(), Mode: h.Mode().Name, Owner: h.Owner(), Token: h.Token,
		Client: h.Carrier.Client(), Held: h.Age(), Reason: reason,
	}
}
