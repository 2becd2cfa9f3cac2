package acquire

import (
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// Options say what an acquire asks for. They are checked.
type Options struct {
	script.Lock
	Mode  *script.Mode
	Owner string // "" for a generated owner
	ID    string
	Wait  bool
	Block time.Duration // how long to wait; 0 for no limit
	TTL   time.Duration // TTL or LEASE
	script.Terms
	Replicas int64 // that must have the grant; 0 for none
}

// grant is what makes a hold of a result for that owner.
func (opts *Options) grant(owner string, r *Result) hold.Grant {
	g := hold.Grant{
		Key: opts.Key, DB: opts.DB, Mode: opts.Mode, Owner: owner, Token: r.Token, TTL: opts.TTL, Terms: opts.Terms,
		Since: r.sent.Add(-r.move.Age), Handovers: r.handovers,
	}
	if r.Kind == Moved {
		of := &r.move.Record
		g.Moved, g.Moves, g.Count, g.TTL, g.Terms = true, of.Moves(), r.move.Count, script.Millis(of.TTL), of.Terms()
	}
	return g
}
