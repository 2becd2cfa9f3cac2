package lockcmd

import (
	"slices"
	"sync"
)

// lines are those who wait for what is not handed over: permits, and latches, by the channel where
// news of them is told. As in queues, only the head of a line looks (R18). It lets the others know:
// permits may be left for the next one, and a latch that has come to zero is open to all.
type lines struct {
	mu     sync.Mutex
	byID   map[lineID][]*turn // in the order they came
	joined int64              // how many have ever come
}

// turn is one command's place in a line.
type turn struct {
	id     lineID
	wake   chan struct{} // size 1: one look is due, however many reasons there are
	opened chan struct{} // closed when another's look was good for this one too
	// Guarded by lines.mu.
	number int64 // in the order they came
	saw    int64 // the last one's number when its look was sent
}

func newLines() *lines { return &lines{byID: make(map[lineID][]*turn)} }

// waiting is how many stand in the line.
func (l *lines) waiting(id lineID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byID[id])
}

// join goes to the end of a line.
func (l *lines) join(id lineID) *turn {
	t := &turn{id: id, wake: make(chan struct{}, 1), opened: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.joined++
	t.number = l.joined
	l.byID[id] = append(l.byID[id], t)
	return t
}

// look reports whether t is to look now: only the head does.
func (l *lines) look(t *turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := l.byID[t.id]; len(line) == 0 || line[0] != t {
		return false
	}
	select { // whatever woke it until now is served by this look; what comes later deserves another
	case <-t.wake:
	default:
	}
	t.saw = l.joined
	return true
}

// open lets all go who stood in the line with t when its look was sent.
func (l *lines) open(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byID[t.id] = slices.DeleteFunc(l.byID[t.id], func(other *turn) bool {
		if other == t || other.number > t.saw {
			return false
		}
		close(other.opened)
		return true
	})
}

// leave takes t out of its line. The next one looks if something is left for it, as far as t knows,
// or if t was woken and has not looked since.
func (l *lines) leave(t *turn, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byID[t.id]
	i := slices.Index(line, t)
	if i < 0 {
		return // it was let go
	}
	line = slices.Delete(line, i, i+1)
	l.byID[t.id] = line
	if len(line) == 0 {
		delete(l.byID, t.id)
		return
	}
	if i == 0 && (more || len(t.wake) > 0) {
		line[0].rouse()
	}
}

// wake lets the head of the line look.
func (l *lines) wake(id lineID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := l.byID[id]; len(line) > 0 {
		line[0].rouse()
	}
}

// wakeAll lets everybody see that something has changed.
func (l *lines) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.byID {
		for _, t := range line {
			t.rouse()
		}
	}
}

func (t *turn) rouse() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
