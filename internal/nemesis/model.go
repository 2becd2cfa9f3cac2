package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// permits is how many permits every semaphore of a run has.
const permits = 3

// aspect is one thing that is true of a lock, and the operations that it is about.
type aspect struct {
	name     string
	about    func(op) bool
	model    porcupine.Model
	keepsOut bool // all that a hold does is to keep others out
}

// state is a lock between two operations, as far as a model minds. It is comparable.
type state struct {
	holder  int    // of the exclusive hold, 0 for none
	owner   string // its owner
	count   int    // of its acquires
	readers string // the read holds' numbers in rising order, each with a space behind it
	out     int    // permits that are out
	token   int64  // the last one

	there bool   // a counter or a latch
	left  int64  // its count
	lent  string // the numbers of those takes of which nobody knows, each with a space behind it
}

func newAspect(name string, about func(op) bool, step func(state, op) (state, bool)) aspect {
	return aspect{name: name, about: about, model: porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, input, _ any) (bool, any) {
			next, ok := step(s.(state), input.(op))
			return ok, next
		},
		DescribeOperation: func(input, _ any) string { return input.(op).String() },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}}
}

// keepingOut is an aspect of holds that do nothing but keep others out.
func keepingOut(name string, about func(op) bool, step func(state, op) (state, bool)) aspect {
	a := newAspect(name, about, step)
	a.keepsOut = true
	return a
}

func (o op) String() string {
	if o.action > end {
		return o.describe()
	}
	return fmt.Sprintf("%s %s of hold %d owner %q token %d", o.action, o.mode, o.hold, o.owner, o.token)
}

func anything(op) bool { return true }

func grantsAndEnds(o op) bool { return o.action == grant || o.action == end }

func tokens(o op) bool { return o.action == grant && o.token != 0 }

var (
	mutex     = keepingOut("mutex", grantsAndEnds, state.exclusive)
	reentrant = keepingOut("re-entrant mutex", anything, state.reentrant)
	readWrite = keepingOut("read-write lock", anything, state.readWrite)
	semaphore = keepingOut("semaphore", grantsAndEnds, state.permit)
	fence     = newAspect("fencing tokens", tokens, state.fence)
)

// aspectsOf are those of the lock with a name.
func aspectsOf(key string) []aspect {
	switch kindOf(key) {
	case "rw":
		return []aspect{fence, readWrite}
	case "sem":
		return []aspect{semaphore}
	case "quo":
		if key != quorumKey {
			return []aspect{fence} // it is held by whoever has it and two more
		}
		return []aspect{mutex}
	case "count":
		return []aspect{counting}
	case "latch":
		return []aspect{latching}
	case "fair":
		return []aspect{fence, mutex, reentrant}
	}
	return []aspect{fence, mutex, reentrant}
}

func kindOf(key string) string {
	kind, _, _ := strings.Cut(key, ":")
	return kind
}

// fence: each token is above all before it.
func (s state) fence(o op) (next state, ok bool) {
	if o.token <= s.token {
		return s, false
	}
	s.token = o.token
	return s, true
}

// exclusive: one holder at a time.
func (s state) exclusive(o op) (next state, ok bool) {
	if o.action == grant {
		if s.holder != 0 {
			return s, false
		}
		s.holder = o.hold
		return s, true
	}
	if s.holder != o.hold {
		return s, false
	}
	return state{}, true
}

// reentrant: as exclusive, and the last release is that of the last count.
func (s state) reentrant(o op) (next state, ok bool) {
	switch {
	case o.action != grant && s.holder != o.hold:
		return s, false
	case o.action == again:
		s.count++
		return s, true
	case o.action == inner:
		s.count--
		return s, s.count > 0
	case o.action == end && o.counted && s.count != 1:
		return s, false
	}
	if s, ok = s.exclusive(o); ok && o.action == grant {
		s.count = 1
	}
	return s, ok
}

// readWrite: one writer, or any number of readers; the writer's owner may read, too.
func (s state) readWrite(o op) (next state, ok bool) {
	if o.mode == "read" {
		return s.read(o)
	}
	switch o.action {
	case grant:
		if s.holder != 0 || s.readers != "" {
			return s, false
		}
		s.holder, s.owner = o.hold, o.owner
		return s, true
	case end:
		if s.holder != o.hold {
			return s, false
		}
		s.holder, s.owner = 0, ""
		return s, true
	}
	return s, s.holder == o.hold
}

func (s state) read(o op) (state, bool) {
	readers := strings.Fields(s.readers)
	name := strconv.Itoa(o.hold)
	i := slices.Index(readers, name)
	switch o.action {
	case grant:
		if s.holder != 0 && (o.owner == "" || s.owner != o.owner) {
			return s, false
		}
		readers = append(readers, name)
		slices.Sort(readers)
	case end:
		if i < 0 {
			return s, false
		}
		readers = slices.Delete(readers, i, i+1)
	default:
		return s, i >= 0
	}
	s.readers = strings.Join(readers, " ")
	return s, true
}

// permit: no more are out than there are.
func (s state) permit(o op) (state, bool) {
	if o.action == grant {
		s.out++
		return s, s.out <= permits
	}
	s.out--
	return s, s.out >= 0
}
