package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"leash/internal/guard"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/proxy/slots"
)

const (
	probeInterval = time.Second        // pause between two probes of all masters
	probeTimeout  = time.Second        // for one probe
	masterMarkTTL = 7 * 24 * time.Hour // of a mark that is not read any more
	uptimeError   = 1000               // ms; Redis tells its uptime in whole seconds
)

// Run probes the masters until ctx ends.
func (g *Masters) Run(ctx context.Context) {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		g.ProbeAll(time.Now(), time.Now().Add(probeTimeout))
		g.logEnds()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ProbeAll probes all masters. It blocks until all have answered or their time is over.
func (g *Masters) ProbeAll(since, until time.Time) {
	slotsOf := g.cfg.Redis.SlotsByMaster()
	errs := make([]error, len(slotsOf))
	var wg sync.WaitGroup
	for i, own := range slotsOf {
		wg.Go(func() {
			errs[i] = guard.Call(g.cfg.Log, "look at a master", func() error { return g.probeOnce(own, since, until) })
		})
	}
	wg.Wait()
	g.logProbeFailure(errors.Join(errs...))
}

// Probe probes the master of a key.
func (g *Masters) Probe(key string, since, until time.Time) {
	if err := g.probeOnce(g.slotsWith(g.slot(key)), since, until); err != nil {
		g.cfg.Redis.RefreshTopologyAfter(transport.Unsent)
	}
}

// slotsWith returns the slots of the master that has this one, nil for none.
func (g *Masters) slotsWith(slot slots.Slot) []slots.Slot {
	for _, own := range g.cfg.Redis.SlotsByMaster() {
		if slices.Contains(own, slot) {
			return own
		}
	}
	return nil
}

// probeOnce probes the master of these slots, unless it was probed after since.
func (g *Masters) probeOnce(own []slots.Slot, since, until time.Time) error {
	if len(own) == 0 {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), g.cfg.Redis.CapAtStop(until))
	defer cancel()
	lock := g.probeLock(own[0])
	select {
	case lock <- struct{}{}:
		defer func() { <-lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	g.mu.Lock()
	m := g.slotOwners[own[0]].master
	done := m != nil && m.seen.After(since)
	g.mu.Unlock()
	if done {
		return nil
	}
	ctx, cancel = context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return g.probeMaster(ctx, own)
}

// probeLock is held by the goroutine that probes the master with that first slot.
func (g *Masters) probeLock(slot slots.Slot) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.probeLocks[slot] == nil {
		g.probeLocks[slot] = make(chan struct{}, 1)
	}
	return g.probeLocks[slot]
}

// logProbeFailure logs the first of several failed rounds of probes.
func (g *Masters) logProbeFailure(err error) {
	g.mu.Lock()
	begins := err != nil && !g.failing
	g.failing = err != nil
	g.mu.Unlock()
	if err != nil {
		g.cfg.Redis.RefreshTopologyAfter(transport.Unsent)
	}
	if begins {
		g.cfg.Log.Warn("cannot identify every master: the others grant no new locks", "err", err)
	}
}

// probeMaster probes the master of these slots. Its mark is in the first of them that does not
// migrate.
func (g *Masters) probeMaster(ctx context.Context, own []slots.Slot) error {
	addr := g.cfg.Redis.Links.NodeAddr(own[0])
	if err := g.readGraceConfig(ctx, own[0], addr); err != nil {
		return fmt.Errorf("configuration of %s: %w", addr, err)
	}
	g.mu.Lock()
	id, since := "", int64(0)
	if m := g.slotOwners[own[0]].master; m != nil {
		id, since = m.id, m.since
	}
	g.mu.Unlock()
	args := script.ProbeArgs{Identity: id, Since: since, Keep: masterMarkTTL}
	for _, slot := range own[:min(len(own), 3)] {
		args.Marks = append(args.Marks, g.markKey(slot))
	}
	sent := time.Now()
	m, err := g.cfg.Redis.Probe(ctx, own[0], args)
	switch {
	case errors.Is(err, script.ErrNoMaster):
		return fmt.Errorf("%s: %w", addr, err)
	case err != nil:
		return fmt.Errorf("look at %s: %w", addr, err)
	}
	g.noteProbe(addr, m.Identity, m.ReplID, m.Since, m.Now, own, sent)
	return nil
}

// markKey is the key of the mark of a master that has this slot.
func (g *Masters) markKey(slot slots.Slot) string {
	if len(g.slotOwners) == 1 {
		return "leash:master"
	}
	return "leash:master:" + slots.Key(slot)
}

// noteProbe stores the result of a probe.
func (g *Masters) noteProbe(addr, id, replid string, since, now int64, own []slots.Slot, sent time.Time) {
	g.mu.Lock()
	m := g.masters[replid]
	fresh := m == nil
	if fresh {
		// A time in the future means that the server's clock went back. It may have become master
		// just now.
		since = min(since, now+uptimeError)
		m = &Master{ReplID: replid, id: id, since: since}
		g.masters[replid] = m
	}
	lasts := time.Duration(g.duration.Load()).Milliseconds()
	longer := fresh || m.since > 0 && lasts > m.ClockGraceEnd-m.since
	if longer || since < m.since {
		m.since = min(since, m.since)
		m.ClockGraceEnd = m.since + lasts
		ends := time.Now().Add(script.Millis(min(m.ClockGraceEnd-now, uptimeError+lasts)))
		if longer || ends.Before(m.graceEnd) { // a clock that went back starts no new grace period
			m.graceEnd, m.restoresStopped = ends, m.restoresStopped && !longer
		}
	}
	m.addr, m.seen = addr, sent
	left := time.Until(m.graceEnd)
	m.logEnd = m.logEnd || fresh && left > 0
	for _, slot := range own {
		g.setOwnerLocked(slot, m)
	}
	g.mu.Unlock()
	if fresh && left > 0 {
		g.cfg.Log.Warn("new master: it grants no new locks during the failover grace",
			"node", addr, "for", left.Round(time.Millisecond))
		g.cfg.Watchdog.CheckSome(func(slot int) bool {
			_, served := slices.BinarySearch(own, slots.Slot(slot))
			return served || len(g.slotOwners) == 1
		})
	}
}

// logEnds logs the end of grace periods. It skips masters that were not seen after it, which may
// have died before.
func (g *Masters) logEnds() {
	var over []string
	g.mu.Lock()
	for _, m := range g.masters {
		if !m.InGrace() {
			m.repaired = nil
		}
		if m.logEnd && m.seen.After(m.graceEnd) {
			m.logEnd = false
			over = append(over, m.addr)
		}
	}
	g.mu.Unlock()
	for _, addr := range over {
		g.cfg.Log.Info("a new master grants locks from now on", "node", addr)
	}
}
