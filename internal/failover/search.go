package failover

import (
	"fmt"
	"slices"
	"strings"
)

// Promise is a promise that a search checks. Promises can be combined with |.
type Promise uint8

const (
	OneBeliever Promise = 1 << iota // no two believe in the lock at the same time
	NoneLost                        // no owner is told of a loss while it may believe in the lock
	CountsKept                      // a release ends the hold exactly when it is the last one
	NoneLeft                        // no released hold is restored
)

// Result is what a search has found.
type Result struct {
	States int
	Broken Promise  // 0 for none
	Trace  []string // what leads there, from the start
}

// visit is a state and the event that first led to it.
type visit struct {
	state state
	from  int
	event event
}

// event is what happened. It is formatted only for a trace.
type event struct {
	format string
	args   [3]int
}

func (e event) String() string {
	args := []any{e.args[0], e.args[1], e.args[2]}
	return fmt.Sprintf(e.format, args[:strings.Count(e.format, "%")]...)
}

// search is a breadth-first search of all states.
type search struct {
	Model
	promises Promise
	seen     map[state]struct{}
	visits   []visit
	at       int // the visit whose successors are being found
	result   Result
}

// Search visits all states, or those before the first that breaks one of the promises.
func (m Model) Search(promises Promise) Result {
	w := &search{Model: m, promises: promises, seen: make(map[state]struct{})}
	w.reach(m.start(), "")
	for ; w.at < len(w.visits) && w.result.Broken == 0; w.at++ {
		w.expand(w.visits[w.at].state)
	}
	w.result.States = len(w.seen)
	return w.result
}

// reach adds a state, if it is new.
func (w *search) reach(s state, format string, args ...int) {
	w.retire(&s)
	s.normalize()
	if _, ok := w.seen[s]; ok {
		return
	}
	w.seen[s] = struct{}{}
	e := event{format: format}
	copy(e.args[:], args)
	w.visits = append(w.visits, visit{s, w.at, e})
	believers := 0
	for i := range s.owners {
		if s.owners[i].belief > 0 {
			believers++
		}
	}
	if believers > 1 {
		w.breach(OneBeliever, e)
	}
}

// lose adds a state in which an owner that believes in the lock is told of its loss. An old master
// may say so wrongly.
func (w *search) lose(s state, i int) {
	const format = "owner %d is told that the lock is lost, by server %d"
	by := int(s.owners[i].to)
	s.owners[i].belief = 0
	if s.servers[by].role == master {
		w.breach(NoneLost, event{format, [3]int{i, by}})
	}
	w.reach(s, format, i, by)
}

// breach ends the search, if it checks that promise.
func (w *search) breach(p Promise, last event) {
	if w.promises&p == 0 || w.result.Broken != 0 {
		return
	}
	w.result.Broken, w.result.Trace = p, []string{last.String()}
	for i := w.at; i > 0; i = w.visits[i].from {
		w.result.Trace = append(w.result.Trace, w.visits[i].event.String())
	}
	slices.Reverse(w.result.Trace)
}

// expand adds all states that may come next.
func (w *search) expand(s state) {
	next := s
	if !w.mustWait(&s) {
		w.tick(&next)
		w.reach(next, "time passes")
	}
	for i := range s.servers {
		w.replicate(s, i)
		for leash := range s.settled {
			w.probeServer(s, leash, i)
		}
	}
	for i := range w.Owners {
		w.act(s, i)
		w.deliver(s, i)
	}
}

// replicate adds what may happen to a replica. It receives all data of its master, or it is
// promoted as it is. A promotion loses what the master has written since.
func (w *search) replicate(s state, i int) {
	other := 1 - i
	if s.servers[i].role != replica || s.servers[other].role != master || w.over(&s) {
		return
	}
	next := s
	next.servers[i].data = s.servers[other].data
	w.reach(next, "server %d catches up", i)
	next = s
	w.promote(&next, i)
	w.reach(next, "server %d becomes the master", i)
}

// probeServer lets a Leash probe a server.
func (w *search) probeServer(s state, leash, i int) {
	if w.Grace == 0 || !s.servers[i].active() {
		return
	}
	next := s
	grace := w.probe(&next.servers[i])
	if grace == 0 {
		next.settled[leash][i] = next.servers[i].identity
	}
	w.reach(next, "leash %d probes server %d, grace %d", leash, i, int(grace))
}
