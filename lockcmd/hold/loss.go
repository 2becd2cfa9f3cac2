package hold

import (
	"slices"

	"leash/lockcmd/script"
)

// Reasons for a loss besides those of the package renewal.
const (
	ReasonMaxHold = "maxhold" // MAXHOLD is over
	ReasonIdle    = "idle"    // the client was silent for longer than IDLE
	ReasonQuorum  = "quorum"  // too few holds of its MACQUIRE remain
)

// maxUnreportedLosses is how many losses wait to be reported to a connection. With one more it is
// closed.
const maxUnreportedLosses = 1024

// losses are those that the client of a carrier is to be told of. Carrier.mu guards them.
type losses struct {
	unreported []unreportedLoss // under ONLOSS ERROR, in order
	closing    *lossReport      // the host is about to be told of it; nil for none
}

// unreportedLoss is a hold that was lost under ONLOSS ERROR and whose owner must be told.
type unreportedLoss struct {
	lock   script.Lock
	owner  string
	token  int64
	reason string
}

// lossReport is what follows from the loss of a hold.
type lossReport struct {
	hold     *Hold
	reason   string
	reported bool // the owner must be told
	closes   bool // that ends the connection
	unknown  bool // nobody knew of the hold
	// holds of its group that are useless without it; they are ended after the owner was told
	remaining []*Hold
}

// noteLossLocked decides what the owner of h is told. The loss ends the connection, or with ONLOSS
// ERROR it is the reply to the next LOCK command for the key.
func (h *Hold) noteLossLocked(reason string, evicted bool) *lossReport {
	c, r := h.Carrier, lossReport{reported: true}
	if g := h.readExtra().group; g != nil {
		r = g.loseLocked(h, evicted)
	}
	r.hold, r.reason = h, reason
	switch {
	case !r.reported:
	case !h.flags.ErrorOnLoss || len(c.losses.unreported) >= maxUnreportedLosses:
		r.closes, c.losses.closing = true, &r
	default:
		c.losses.unreported = append(c.losses.unreported, unreportedLoss{h.Lock(), h.Owner(), h.Token, reason})
	}
	return &r
}

// tell tells the owner of the loss (R27).
func (r *lossReport) tell() {
	h, c := r.hold, r.hold.Carrier
	if r.reported {
		h.push(lostNotice)
	}
	if r.closes {
		c.host.End([]byte(h.Key()), r.reason)
		c.mu.Lock()
		if c.losses.closing == r {
			c.losses.closing = nil
		}
		c.mu.Unlock()
	}
	if !r.unknown {
		c.registry.Service.Lost(h, r.reason)
	}
	for _, other := range r.remaining {
		other.Evict(ReasonQuorum)
	}
}

// HasUnreportedLoss reports whether the client must be told of a loss under ONLOSS ERROR.
func (c *Carrier) HasUnreportedLoss() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.losses.unreported) > 0
}

// TakeUnreportedLoss returns and removes an unreported loss of that lock, to be the reply of a
// command. token and owner are those that the command names; 0 and "" for none. If they name
// another hold, the command runs instead: otherwise the reply would be taken for the end of that
// hold.
func (c *Carrier) TakeUnreportedLoss(lock script.Lock, token int64, owner string) (reason string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.losses.unreported, func(l unreportedLoss) bool {
		return l.lock == lock && l.token == token
	})
	named := func(h *Hold) bool { return h.Token == token && h.state == Held }
	if at < 0 && c.newestLocked(lock, named) == nil {
		at = slices.IndexFunc(c.losses.unreported, func(l unreportedLoss) bool {
			return l.lock == lock && (owner == "" || owner == l.owner)
		})
	}
	if at < 0 {
		return "", false
	}
	reason = c.losses.unreported[at].reason
	c.losses.unreported = slices.Delete(c.losses.unreported, at, at+1)
	return reason, true
}

// ForgetLoss notes that the client is told of the loss of h now. A loss of its own hold need not be
// told again.
func (c *Carrier) ForgetLoss(h *Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.Carrier == c {
		c.losses.unreported = slices.DeleteFunc(c.losses.unreported, func(l unreportedLoss) bool {
			return l.lock == h.Lock() && l.token == h.Token
		})
	}
}
