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

// waitsForHold reports whether an acquire that waits on the connection of h would wait for itself
// (R5). That is so when another owner has h and the two modes cannot be held together.
func (opts *Options) waitsForHold(h *hold.Hold) bool {
	return !h.IsPermit() && !h.IsOf(opts.Owner) && !(h.Mode().Shared && opts.Mode.Shared)
}

// grant is what makes a hold of a result for that owner.
func (opts *Options) grant(owner string, r *Result) hold.Grant {
	g := hold.Grant{
		Key: opts.Key, DB: opts.DB, Mode: opts.Mode, Owner: owner, Token: r.Token, TTL: opts.TTL, Terms: opts.Terms,
		Since: r.sent.Add(-r.age), Handovers: r.handovers,
	}
	if r.Kind == Moved {
		g.Moved, g.Moves, g.Count = true, r.record.Moves(), r.count
		g.TTL, g.Terms = script.Millis(r.record.TTL), r.record.Terms()
	}
	return g
}
