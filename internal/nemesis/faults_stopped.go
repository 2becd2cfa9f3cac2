package main

import (
	"fmt"
	"strings"
	"time"

	"leash/internal/redistest"
)

const (
	stoppedHolders = 6  // clients with a lock each on the Leash that is stopped
	stoppedWrites  = 40 // that each sends while it stands still
)

// stopOver stops a Leash for longer than a TTL, while its holders send writes, until another Leash
// has granted their locks. When it goes on, none of those writes may be executed.
func (l *injector) stopOver() error {
	i := l.rnd.IntN(len(l.bed.leashes))
	l.weather.setPlace(l.spell, leashName(i))
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
	time.Sleep(ttl + l.between(0, ttl))
	next, err := redistest.Dial(other.Addr)
	if err == nil {
		defer next.Close()
		next.Timeout = 2 * ttl
		for _, h := range holders {
			h.before = h.taken(next)
		}
	}
	if err := stopped.Resume(); err != nil || next == nil {
		return err
	}
	for _, h := range holders {
		h.awaitEnd()
		after, err := next.Do("GET", h.data)
		switch {
		case h.before == "" || err != nil || strings.HasPrefix(after, "-"), l.weather.othersDuring(l.spell):
			// not to be told from what else was broken
		case after != h.before:
			l.tally.violation(h.key, 0, "its Leash stood still, and wrote %q for the old holder after the next one had it with %q", after, h.before)
		}
	}
	return nil
}

// stoppedHolder is a client with a lock of its own, and a counter under it.
type stoppedHolder struct {
	*redistest.Client
	key, data string
	before    string // the counter when the next one had the lock; "" if that is not known
}

func (l *injector) stoppedHolders(addr string) (holders []*stoppedHolder) {
	for n := range stoppedHolders {
		c, err := redistest.Dial(addr)
		if err != nil {
			continue
		}
		c.Timeout = ttl
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

// taken lets the next one have the lock, and returns what the counter is then; "" if that does not
// come about.
func (h *stoppedHolder) taken(next *redistest.Client) string {
	if reply, err := next.Do("LOCK.ACQUIRE", h.key, "BLOCK", fmt.Sprint(ttl.Milliseconds())); err != nil || !strings.HasPrefix(reply, ":") {
		return ""
	}
	reply, err := next.Do("GET", h.data)
	if err != nil || strings.HasPrefix(reply, "-") {
		return ""
	}
	return reply
}

// awaitEnd reads until the connection ends, or for a while.
func (h *stoppedHolder) awaitEnd() {
	h.Timeout = ttl
	for {
		if _, err := h.Read(); err != nil {
			return
		}
	}
}
