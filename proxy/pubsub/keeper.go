package pubsub

import (
	"bytes"
	"context"
	"slices"
	"time"

	"leash/proxy/slots"
	"leash/proxy/topology"
)

// Sizes and times for keeping subscriptions.
const (
	maxChunk          = 500                    // names in one command
	topologyInterval  = time.Second            // time between checks for a new topology
	retryEvery        = 100 * time.Millisecond // time between checks while a subscription is missing
	closeUnusedAfter  = 5 * time.Second        // how long an unused line stays open
	retryRefusedAfter = 5 * time.Second        // pause after Redis has refused a subscription
)

// keep is the hub's keeper. It keeps every entry subscribed where the topology requires it, and
// ends when there are no more entries.
func (h *hub) keep(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		case <-timer.C:
		}
		missing, over, warnings := h.check()
		for _, warn := range warnings {
			warn()
		}
		if over {
			h.x.up.Nodes.Leave(h.lane)
			return
		}
		if missing {
			timer.Reset(retryEvery)
		} else {
			timer.Reset(topologyInterval)
		}
	}
}

// check is one round of the keeper. missing means that another round must follow soon. over means
// that the hub has ended.
func (h *hub) check() (missing, over bool, warnings []func()) {
	x := h.x
	x.mu.Lock()
	defer x.mu.Unlock()
	h.adoptLocked(x.up.Topology())
	if !h.later.IsZero() && time.Now().After(h.later) {
		h.later, h.dirty = time.Time{}, true
	}
	if h.dirty {
		h.dirty = false
		h.subscribeMissingLocked()
		h.unsubscribeUnneededLocked()
	}
	h.checkLinesLocked()
	missing = h.dirty
	if over = h.idleLocked(); over {
		delete(x.hubs, h.lane.User)
	}
	warnings, h.warnings = h.warnings, nil
	return missing, over, warnings
}

// adoptLocked adopts a new topology. It changes the home if that has left or is silent. A home that
// has become a replica stays, because a cluster's messages reach every node.
func (h *hub) adoptLocked(t *topology.Snapshot) {
	if t != h.topology {
		h.topology, h.dirty = t, true
		h.promoteLocked()
	}
	if h.home == nil {
		return
	}
	if n := h.home.node; !h.x.up.ReceivesMessages(n) || n.Unresponsive() {
		if other := h.newHomeLocked(n); other != nil {
			h.home, h.dirty = other, true
		}
	}
}

// changes are names of subscriptions that begin or end, by the command that says so.
type changes map[place][]string

// place is what the names in one command have in common.
type place struct {
	line *line
	kind Kind
	slot slots.Slot // of sharded channels, because one command covers one slot; 0 for others
}

func (c changes) add(l *line, kind Kind, name string) {
	p := place{line: l, kind: kind}
	if kind == Shard {
		p.slot = slots.Of([]byte(name))
	}
	c[p] = append(c[p], name)
}

// joinLocked requests the subscriptions. after is called with each result.
func (c changes) joinLocked(after func(*request)) {
	for p, names := range c {
		for chunk := range slices.Chunk(names, maxChunk) {
			p.line.joinLocked(p.kind, chunk, after)
		}
	}
}

func (c changes) leaveLocked() (requests []*request) {
	for p, names := range c {
		for chunk := range slices.Chunk(names, maxChunk) {
			requests = append(requests, p.line.leaveLocked(p.kind, chunk))
		}
	}
	return requests
}

func (h *hub) subscribeMissingLocked() {
	missing, now := make(changes), time.Now()
	for kind := range h.entries {
		for name, e := range h.entries[kind] {
			if now.Before(e.notBefore) {
				continue
			}
			lines, complete := h.targetsLocked(e.kind, name)
			h.dirty = h.dirty || !complete
			for _, l := range lines {
				if st := l.state[e.kind][name]; st != asked && st != joined {
					missing.add(l, e.kind, name)
				}
			}
		}
	}
	missing.joinLocked(h.subscribedLocked)
}

// subscribedLocked handles the result of a subscription that the keeper requested.
func (h *hub) subscribedLocked(r *request) {
	switch {
	case r.lost != nil || r.refusal == nil:
		return
	case h.followLocked(r):
		h.recheckLocked()
	case !isLasting(r.refusal):
		h.x.up.Refresh()
		h.dirty = true
	case len(r.names) > 1: // the refused name is unknown
		for i := range r.names {
			r.line.joinLocked(r.kind, r.names[i:i+1], h.subscribedLocked)
		}
	default:
		if e := h.entries[r.kind][r.names[0]]; e != nil {
			h.warnLocked(&h.refusals, "redis refuses a subscription", "kind", e.kind.Joined(), "channel", e.name,
				"err", string(bytes.TrimSpace(r.refusal)))
			h.refuseLocked(e, "subscription refused: "+string(bytes.TrimSpace(r.refusal[1:])))
		}
	}
}

// unsubscribeUnneededLocked ends subscriptions on lines that no longer need them. It waits until
// the subscriptions exist on the lines that need them.
func (h *hub) unsubscribeUnneededLocked() {
	unneeded := make(changes)
	for _, l := range h.lines {
		for kind := range l.state {
			for name, st := range l.state[kind] {
				e := h.entries[kind][name]
				if st != joined || e == nil || e.source == l || e.source == nil {
					continue
				}
				if lines, complete := h.targetsLocked(e.kind, name); complete &&
					!slices.Contains(lines, l) {
					unneeded.add(l, e.kind, name)
				}
			}
		}
	}
	unneeded.leaveLocked()
}

// checkLinesLocked ends the lines that are dead, or have been unused for closeUnusedAfter.
func (h *hub) checkLinesLocked() {
	now := time.Now()
	for _, l := range h.lines {
		l.checkLocked(now)
		switch {
		case l.subscriptionsLocked() > 0:
			l.idle = time.Time{}
		case l.idle.IsZero():
			l.idle = now
		case now.Sub(l.idle) > closeUnusedAfter:
			l.endLocked()
		}
	}
}

func (h *hub) idleLocked() bool {
	for _, entries := range h.entries {
		if len(entries) > 0 {
			return false
		}
	}
	return len(h.lines) == 0
}
