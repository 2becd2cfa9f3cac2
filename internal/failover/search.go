package failover

import (
	"fmt"
	"slices"
	"strings"
)

// Promise is what a search looks after; they can be added.
type Promise uint8

const (
	OneBeliever Promise = 1 << iota // no two believe in the lock at the same time
	NoneLost                        // no owner is told of a loss while it may believe in the lock
	CountsKept                      // a release ends the hold exactly when it is the last one
	NoneLeft                        // nothing is put back that was released
)

// Result is what a search has found.
type Result struct {
	States int
	Broken Promise  // 0 for none
	Trace  []string // what leads there, from the start
}

// visit is how a state was reached first.
type visit struct {
	state state
	from  int
	event event
}

// event is what happened, to be written when it must.
type event struct {
	format string
	args   [3]int
}

func (e event) String() string {
	args := []any{e.args[0], e.args[1], e.args[2]}
	return fmt.Sprintf(e.format, args[:strings.Count(e.format, "%")]...)
}

// search is a walk through all states, the nearest first.
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

// reach is the arrival at a state.
func (w *search) reach(s state, format string, args ...int) {
	w.retire(&s)
	s.tidy()
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

// lose is the arrival at a state in which an owner that believes in the lock is told of its loss. A
// ghost may say so in error.
func (w *search) lose(s state, i int) {
	const format = "owner %d is told that the lock is lost, by server %d"
	by := int(s.owners[i].to)
	s.owners[i].belief = 0
	if s.servers[by].role == master {
		w.breach(NoneLost, event{format, [3]int{i, by}})
	}
	w.reach(s, format, i, by)
}

// breach ends the search, if it is for that promise.
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

// expand finds all that may happen next.
func (w *search) expand(s state) {
	next := s
	if !w.hangs(&s) {
		w.tick(&next)
		w.reach(next, "time passes")
	}
	for i := range s.servers {
		w.replicate(s, i)
		for leash := range s.settled {
			w.glance(s, leash, i)
		}
	}
	for i := range w.Owners {
		w.act(s, i)
		w.travel(s, i)
	}
}

// replicate is what becomes of a replica: it catches up, or it is promoted as it is. All that its
// master wrote since is lost then.
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

// glance is a Leash's look at a server.
func (w *search) glance(s state, leash, i int) {
	if w.Grace == 0 || !s.servers[i].active() {
		return
	}
	next := s
	grace := w.look(&next.servers[i])
	if grace == 0 {
		next.settled[leash][i] = next.servers[i].identity
	}
	w.reach(next, "leash %d looks at server %d, grace %d", leash, i, int(grace))
}
