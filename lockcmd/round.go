package lockcmd

import (
	"sync"
	"time"

	"leash/internal/guard"
)

// roundWorkers is how many keys of one command are looked at at once.
const roundWorkers = 64

// round is one look at several keys at the same time. Who comes when it is over gives back what it
// got.
type round struct {
	assembly *assembly
	until    time.Time
	line     chan int // the wishes to look at
	looks    chan got // one of each

	mu   sync.Mutex
	over bool
}

// look looks at all the keys that are not in hand, and takes what it gets in hand. It returns what
// came of each, but does not wait for those that hang when as many as enough are in hand without
// them.
func (a *assembly) look(enough int, until time.Time) []got {
	inHand := 0
	var missing []int
	for i, h := range a.holds {
		if h == nil {
			missing = append(missing, i)
		} else {
			inHand++
		}
	}
	r := &round{assembly: a, until: until, line: make(chan int, len(missing)), looks: make(chan got, len(missing))}
	for _, i := range missing {
		r.line <- i
	}
	close(r.line)
	for range min(len(missing), roundWorkers) {
		if !a.carrier.service.spawn(r.work) {
			r.refuse() // the Service has ended
		}
	}
	var looks []got
	hurry := make(<-chan time.Time) // never
	for len(looks) < len(missing) {
		select {
		case l := <-r.looks:
			looks = append(looks, l)
			a.keep(l)
			if l.hold == nil {
				continue
			}
			if inHand++; inHand == enough {
				hurry = time.After(quorumGrace)
			}
		case <-hurry:
			return append(looks, r.end()...)
		}
	}
	return looks
}

// work looks at one key after the other.
func (r *round) work() {
	a := r.assembly
	for i := range r.line {
		l := got{index: i, result: result{kind: unknown, text: msgRefused}} // if the look panics
		_ = guard.Do(a.carrier.service.log, "look at a key", func() { l = r.lookAt(i) })
		if r.tell(l) {
			continue
		}
		if l.hold != nil {
			a.carrier.service.putBack(l.hold, a.wishes[i].id)
		}
		return
	}
}

// lookAt looks at one key.
func (r *round) lookAt(i int) got {
	a := r.assembly
	t, res := a.begin(i, r.until)
	if t == nil {
		return got{index: i, result: res}
	}
	defer t.release()
	return a.settle(i, t, res)
}

// refuse answers for what nobody looks at.
func (r *round) refuse() {
	for i := range r.line {
		r.tell(got{index: i, result: result{kind: unknown, text: msgRefused}})
	}
}

// tell fails when the round is over.
func (r *round) tell(g got) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.looks <- g
	}
	return !r.over
}

// end ends the round, and returns what has come in the last moment.
func (r *round) end() (looks []got) {
	r.mu.Lock()
	r.over = true
	close(r.looks)
	r.mu.Unlock()
	for l := range r.looks {
		r.assembly.keep(l)
		looks = append(looks, l)
	}
	return looks
}
