package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// counterUses is how many clients use a counter before it is retired.
const counterUses = 60

// counter is a counter or a latch. If a request about it gets no reply, no client can find out
// whether it was done. The counter is retired then: no other client begins to use it. So few
// requests of a history have more than one possible outcome, and the history can be checked.
type counter struct {
	kind, key string
	most      int // how many a client takes at once, at most

	// The mutex of the counters guards these.
	uses    int       // how many clients have begun to use it
	users   int       // how many clients use it now
	retired bool      // no other client may begin to use it
	opened  time.Time // the latch was at zero at this time; zero if unknown
}

// counters are the counters in use: the current one of each kind, and others that clients still
// use. They are safe for concurrent use. renew must be called first.
type counters struct {
	mu   sync.Mutex
	made int
	now  map[string]*counter // by kind
	used map[string]*counter // by name
}

// renew forgets all counters. Call it for a new history, because the new history does not contain
// what was done to them.
func (cs *counters) renew() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.now, cs.used = make(map[string]*counter), make(map[string]*counter)
}

// enter lets a client use the current counter of a kind. It returns nil if there is none.
func (cs *counters) enter(kind string) *counter {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.now[kind]
	if c == nil || c.retired {
		return nil
	}
	c.uses++
	c.users++
	c.retired = c.uses == counterUses
	return c
}

// make makes a counter with a new name. Only the client that made it uses it until publish.
func (cs *counters) make(kind string, most int) *counter {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.made++
	c := &counter{kind: kind, key: fmt.Sprintf("%s:%d", kind, cs.made), most: most, users: 1}
	cs.used[c.key] = c
	return c
}

// publish lets other clients use a counter, in place of the current one of its kind.
func (cs *counters) publish(c *counter) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if was := cs.now[c.kind]; was != nil {
		was.retired = true
	}
	cs.now[c.kind] = c
}

func (cs *counters) retire(c *counter) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.retired = true
}

// open notes that a latch is at zero.
func (cs *counters) open(c *counter) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.retired = true
	if c.opened.IsZero() {
		c.opened = time.Now()
	}
}

// openedAt returns a time at which a latch was at zero. It returns zero if none is known.
func (cs *counters) openedAt(c *counter) time.Time {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.opened
}

// leave ends a client's use of a counter. It reports whether no client uses the counter any more
// and no other client will.
func (cs *counters) leave(c *counter) (last bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.users--
	last = c.users == 0 && (c.retired || cs.now[c.kind] != c)
	if last {
		delete(cs.used, c.key)
	}
	return last
}

// keys returns the names of the counters in use.
func (cs *counters) keys() []string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Sorted(maps.Keys(cs.used))
}
