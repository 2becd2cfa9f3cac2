package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// counterKinds are the kinds of what has no owners: SEM.TAKE's counters, and latches.
var counterKinds = []string{"count", "latch"}

// isCounter reports whether a name is that of a counter or a latch, or of all of a kind.
func isCounter(key string) bool { return slices.Contains(counterKinds, kindOf(key)) }

// counterUses is how many clients use a counter before there is another.
const counterUses = 60

// counter is a counter or a latch. Nobody can find out what became of a request about one that was
// not answered, so when there is such a request nobody begins to use it any more: then few requests
// of a history have more than one outcome, and it can be checked.
type counter struct {
	kind, key string
	most      int // as many as anybody takes at once

	// The mutex of the counters guards these.
	uses    int       // how many clients have used it
	users   int       // and do
	retired bool      // nobody more may
	opened  time.Time // by then the latch was at zero; zero when that is not known
}

// counters are those in use: one of each kind, and those that are retired and not yet left. They
// are safe for concurrent use; renew must be called first.
type counters struct {
	mu   sync.Mutex
	made int
	now  map[string]*counter // by kind
	used map[string]*counter // by name
}

// renew is for another history: what was done to the counters that there are is not in it.
func (cs *counters) renew() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.now, cs.used = make(map[string]*counter), make(map[string]*counter)
}

// enter lets a client use the counter of a kind; it is nil when there is none.
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

// make names a counter, which its client uses.
func (cs *counters) make(kind string, most int) *counter {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.made++
	c := &counter{kind: kind, key: fmt.Sprintf("%s:%d", kind, cs.made), most: most, users: 1}
	cs.used[c.key] = c
	return c
}

// publish lets others use a counter, instead of another one.
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

// open says that a latch is at zero.
func (cs *counters) open(c *counter) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.retired = true
	if c.opened.IsZero() {
		c.opened = time.Now()
	}
}

// openedAt is by when a latch was at zero; zero when that is not known.
func (cs *counters) openedAt(c *counter) time.Time {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.opened
}

// leave ends a client's use. It reports whether nobody uses the counter any more, nor will.
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

// keys are the names of the counters in use.
func (cs *counters) keys() []string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Sorted(maps.Keys(cs.used))
}
