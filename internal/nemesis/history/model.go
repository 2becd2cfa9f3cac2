package history

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Permits is how many permits every semaphore of a run has.
const Permits = 3

// property is something that must hold for a lock, and the operations that it is about.
type property struct {
	name      string
	about     func(Op) bool
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

func newProperty(name string, about func(Op) bool, step func(state, Op) (state, bool)) property {
	return property{name: name, about: about, model: porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, input, _ any) (bool, any) {
			next, ok := step(s.(state), input.(Op))
			return ok, next
		},
		DescribeOperation: func(input, _ any) string { return input.(Op).String() },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}}
}

// newExclusion returns a property of holds whose only effect is to keep others out.
func newExclusion(name string, about func(Op) bool, step func(state, Op) (state, bool)) property {
	a := newProperty(name, about, step)
	a.exclusion = true
	return a
}

func (o Op) String() string {
	if o.Action > End {
		return o.describe()
	}
	return fmt.Sprintf("%s %s of hold %d owner %q token %d", o.Action, o.Mode, o.Hold, o.Owner, o.Token)
}

func anyOp(Op) bool { return true }

func grantsAndEnds(o Op) bool { return o.Action == Grant || o.Action == End }

func tokens(o Op) bool { return o.Action == Grant && o.Token != 0 }

var (
	mutex     = newExclusion("mutex", grantsAndEnds, state.exclusive)
	reentrant = newExclusion("re-entrant mutex", anyOp, state.reentrant)
	readWrite = newExclusion("read-write lock", anyOp, state.readWrite)
	semaphore = newExclusion("semaphore", grantsAndEnds, state.permit)
	fence     = newProperty("fencing tokens", tokens, state.fence)
)

// propertiesOf returns the properties of a lock.
func propertiesOf(key string) []property {
	switch KindOf(key) {
	case "rw":
		return []property{fence, readWrite}
	case "sem":
		return []property{semaphore}
	case "quo":
		if key != QuorumKey {
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

// KindOf is the kind of a lock, counter or latch: the start of its name.
func KindOf(key string) string {
	kind, _, _ := strings.Cut(key, ":")
	return kind
}

// fence is the model of fencing tokens: each token is higher than all tokens before it.
func (s state) fence(o Op) (next state, ok bool) {
	if o.Token <= s.token {
		return s, false
	}
	s.token = o.Token
	return s, true
}

// exclusive is the model of a mutex: it has one holder at a time.
func (s state) exclusive(o Op) (next state, ok bool) {
	if o.Action == Grant {
		if s.holder != 0 {
			return s, false
		}
		s.holder = o.Hold
		return s, true
	}
	if s.holder != o.Hold {
		return s, false
	}
	return state{}, true
}

// reentrant is like exclusive, and counts the acquires. The hold ends with the release of the last
// count.
func (s state) reentrant(o Op) (next state, ok bool) {
	switch {
	case o.Action != Grant && s.holder != o.Hold:
		return s, false
	case o.Action == Reacquire:
		s.count++
		return s, true
	case o.Action == InnerRelease:
		s.count--
		return s, s.count > 0
	case o.Action == End && o.Counted && s.count != 1:
		return s, false
	}
	if s, ok = s.exclusive(o); ok && o.Action == Grant {
		s.count = 1
	}
	return s, ok
}

// readWrite is the model of a read-write lock. It has one writer, or any number of readers. The
// owner of the writer may also read.
func (s state) readWrite(o Op) (next state, ok bool) {
	if o.Mode == "read" {
		return s.read(o)
	}
	switch o.Action {
	case Grant:
		if s.holder != 0 || s.readers != "" {
			return s, false
		}
		s.holder, s.owner = o.Hold, o.Owner
		return s, true
	case End:
		if s.holder != o.Hold {
			return s, false
		}
		s.holder, s.owner = 0, ""
		return s, true
	}
	return s, s.holder == o.Hold
}

// read is the part of readWrite for readers.
func (s state) read(o Op) (state, bool) {
	readers := strings.Fields(s.readers)
	name := strconv.Itoa(o.Hold)
	i := slices.Index(readers, name)
	switch o.Action {
	case Grant:
		if s.holder != 0 && (o.Owner == "" || s.owner != o.Owner) {
			return s, false
		}
		readers = append(readers, name)
		slices.Sort(readers)
	case End:
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
func (s state) permit(o Op) (state, bool) {
	if o.Action == Grant {
		s.permitsOut++
		return s, s.permitsOut <= Permits
	}
	s.permitsOut--
	return s, s.permitsOut >= 0
}

// QuorumKey stands for a quorum of QuorumKeys in the history.
const QuorumKey = "quo"

// QuorumKeys are the locks of which a quorum has most.
var QuorumKeys = []string{"quo:1", "quo:2", "quo:3", "quo:4", "quo:5"}
