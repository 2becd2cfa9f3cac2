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

// state is a lock between two operations. It is comparable.
type state struct {
	holder  int    // of the exclusive hold, 0 for none
	owner   string // its owner
	readers string // the read holds' numbers in rising order, each with a space behind it
	out     int    // permits that are out
	token   int64  // the last one
}

// model says which operations a lock allows.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, input, _ any) (bool, any) {
		next, ok := s.(state).step(input.(op))
		return ok, next
	},
	DescribeOperation: func(input, _ any) string { return input.(op).String() },
	DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
}

func (o op) String() string {
	return fmt.Sprintf("%s %s of hold %d owner %q token %d", o.action, o.mode, o.hold, o.owner, o.token)
}

// step is the state after o; ok is false when o cannot happen in s.
func (s state) step(o op) (next state, ok bool) {
	if o.action == grant && o.mode != "permit" {
		if o.token <= s.token {
			return s, false
		}
		s.token = o.token
	}
	switch o.mode {
	case "permit":
		return s.permit(o)
	case "read":
		return s.read(o)
	}
	return s.exclusive(o)
}

func (s state) exclusive(o op) (state, bool) {
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

func (s state) permit(o op) (state, bool) {
	switch o.action {
	case grant:
		s.out++
		return s, s.out <= permits
	case end:
		s.out--
		return s, s.out >= 0
	}
	return s, false
}
