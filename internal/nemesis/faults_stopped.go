package main

import (
	"fmt"
	"strings"
	"time"

	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

const (
	stoppedHolders = 6  // how many clients hold a lock of the Leash that is stopped
	stoppedWrites  = 40 // how many writes each of them sends while the Leash is stopped
)

// stopBeyondLease stops a Leash for longer than a TTL. Its holders send writes in that time, and
// another Leash grants their locks to a new holder. When the stopped Leash continues, it must not
// pass on any of those writes.
func (l *injector) stopBeyondLease() error {
	i := l.rnd.IntN(len(l.bed.leashes))
	l.timeline.SetPlace(l.period, history.LeashName(i))
	stopped, other := l.bed.leashes[i], l.bed.leashes[(i+1)%len(l.bed.leashes)]
	holders := l.stoppedHolders(stopped.Addr)
	defer func() {
		for _, h := range holders {
			h.Close()
		}
	}()
	if err := stopped.Pause(); err != nil {
		return err
	}
	for _, h := range holders {
		_ = h.Send(strings.Repeat(redistest.Command("INCR", h.data), stoppedWrites))
	}
	time.Sleep(history.TTL + l.between(0, history.TTL))
	next, err := redistest.Dial(other.Addr)
	if err == nil {
		defer next.Close()
		next.Timeout = 2 * history.TTL
		for _, h := range holders {
			h.before = h.takeOver(next)
		}
	}
	if err := stopped.Resume(); err != nil || next == nil {
		return err
	}
	for _, h := range holders {
		h.awaitEnd()
		after, err := next.Do("GET", h.data)
		switch {
		case h.before == "" || err != nil || strings.HasPrefix(after, "-"), l.timeline.OthersDuring(l.period):
			// The counter is unknown, or another fault may have changed it.
		case after != h.before:
			l.tally.Violation(h.key, 0, "its Leash was stopped, and wrote %q for the old holder after the next holder had read %q", after, h.before)
		}
	}
	return nil
}

// stoppedHolder is a client with a lock of its own, and with a counter that the lock protects.
type stoppedHolder struct {
	*redistest.Client
	key, data string
	before    string // the counter when the next holder had the lock; "" if unknown
}

// stoppedHolders returns clients of the Leash at addr that have a lock each.
func (l *injector) stoppedHolders(addr string) (holders []*stoppedHolder) {
	for n := range stoppedHolders {
		c, err := redistest.Dial(addr)
		if err != nil {
			continue
		}
		c.Timeout = history.TTL
		h := &stoppedHolder{Client: c, key: fmt.Sprintf("stopped:%d:%d", l.rnd.Int64(), n)}
		h.data = "data:" + h.key
		if reply, err := c.Do("LOCK.ACQUIRE", h.key); err != nil || !strings.HasPrefix(reply, ":") {
			c.Close()
			continue
		}
		holders = append(holders, h)
	}
	return holders
}

// takeOver acquires the lock for the next holder, and returns the counter. It returns "" on errors.
func (h *stoppedHolder) takeOver(next *redistest.Client) string {
	if reply, err := next.Do("LOCK.ACQUIRE", h.key, "BLOCK", fmt.Sprint(history.TTL.Milliseconds())); err != nil || !strings.HasPrefix(reply, ":") {
		return ""
	}
	reply, err := next.Do("GET", h.data)
	if err != nil || strings.HasPrefix(reply, "-") {
		return ""
	}
	return reply
}

// awaitEnd reads until the connection ends, or until no reply has come for a TTL.
func (h *stoppedHolder) awaitEnd() {
	h.Timeout = history.TTL
	for {
		if _, err := h.Read(); err != nil {
			return
		}
	}
}
