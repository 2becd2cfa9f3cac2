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

// property is something that must hold for a lock, and the operations that it is about.
type property struct {
	name      string
	about     func(op) bool
	model     porcupine.Model
	exclusion bool // the only effect of a hold is to keep others out
}

// state is what the models know of a lock between two operations. It is comparable.
type state struct {
	holder     int    // the number of the exclusive hold; 0 for none
	owner      string // the owner of that hold
	count      int    // how many acquires that owner has
	readers    string // the numbers of the read holds, sorted, with a space between two
	permitsOut int    // how many permits are held
	token      int64  // the last token

	exists       bool   // the counter or latch exists
	left         int64  // its count
	unknownTakes string // the numbers of takes with an unknown outcome, each with a space after it
}

func newProperty(name string, about func(op) bool, step func(state, op) (state, bool)) property {
	return property{name: name, about: about, model: porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, input, _ any) (bool, any) {
			next, ok := step(s.(state), input.(op))
			return ok, next
		},
		DescribeOperation: func(input, _ any) string { return input.(op).String() },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}}
}

// newExclusion returns a property of holds whose only effect is to keep others out.
func newExclusion(name string, about func(op) bool, step func(state, op) (state, bool)) property {
	a := newProperty(name, about, step)
	a.exclusion = true
	return a
}

func (o op) String() string {
	if o.action > end {
		return o.describe()
	}
	return fmt.Sprintf("%s %s of hold %d owner %q token %d", o.action, o.mode, o.hold, o.owner, o.token)
}

func anyOp(op) bool { return true }

func grantsAndEnds(o op) bool { return o.action == grant || o.action == end }

func tokens(o op) bool { return o.action == grant && o.token != 0 }

var (
	mutex     = newExclusion("mutex", grantsAndEnds, state.exclusive)
	reentrant = newExclusion("re-entrant mutex", anyOp, state.reentrant)
	readWrite = newExclusion("read-write lock", anyOp, state.readWrite)
	semaphore = newExclusion("semaphore", grantsAndEnds, state.permit)
	fence     = newProperty("fencing tokens", tokens, state.fence)
)

// propertiesOf returns the properties of a lock.
func propertiesOf(key string) []property {
	switch kindOf(key) {
	case "rw":
		return []property{fence, readWrite}
	case "sem":
		return []property{semaphore}
	case "quo":
		if key != quorumKey {
			return []property{fence} // an owner may hold it while another owner has the quorum
		}
		return []property{mutex}
	case "count":
		return []property{counting}
	case "latch":
		return []property{latching}
	case "fair":
		return []property{fence, mutex, reentrant}
	}
	return []property{fence, mutex, reentrant}
}

func kindOf(key string) string {
	kind, _, _ := strings.Cut(key, ":")
	return kind
}

// fence is the model of fencing tokens: each token is higher than all tokens before it.
func (s state) fence(o op) (next state, ok bool) {
	if o.token <= s.token {
		return s, false
	}
	s.token = o.token
	return s, true
}

// exclusive is the model of a mutex: it has one holder at a time.
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

// reentrant is like exclusive, and counts the acquires. The hold ends with the release of the last
// count.
func (s state) reentrant(o op) (next state, ok bool) {
	switch {
	case o.action != grant && s.holder != o.hold:
		return s, false
	case o.action == reacquire:
		s.count++
		return s, true
	case o.action == innerRelease:
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

// readWrite is the model of a read-write lock. It has one writer, or any number of readers. The
// owner of the writer may also read.
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

// read is the part of readWrite for readers.
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

// permit is the model of a semaphore: no more than its permits are held at a time.
func (s state) permit(o op) (state, bool) {
	if o.action == grant {
		s.permitsOut++
		return s, s.permitsOut <= permits
	}
	s.permitsOut--
	return s, s.permitsOut >= 0
}
