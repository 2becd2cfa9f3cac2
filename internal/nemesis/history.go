package main

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// action is what an operation did to a lock.
type action int

const (
	grant action = iota // a new hold
	again               // the owner took it once more
	inner               // the owner gave one count back
	end                 // the hold is over
)

func (a action) String() string { return [...]string{"grant", "again", "inner", "end"}[a] }

// op is one operation on a lock, as a client saw it.
type op struct {
	action action
	mode   string // plain, fair, read, write or permit
	hold   int    // numbers the holds of a run, from 1
	owner  string // "" for an owner of its own
	token  int64  // of a grant
}

// never is when an operation returned of which nobody knows that it has.
const never = math.MaxInt64 / 2

// history is what happened to the locks of a run. It is safe for concurrent use.
type history struct {
	start time.Time

	mu      sync.Mutex
	holds   int
	byKey   map[string][]porcupine.Operation
	forgets []span
}

// span is a time in which a lock may have been forgotten, ns since the start.
type span struct {
	key      string // "" for all of them
	from, to int64
}

func (s span) String() string {
	return fmt.Sprintf("%v to %v %s", time.Duration(s.from), time.Duration(s.to), s.key)
}

func newHistory() *history {
	return &history{start: time.Now(), byKey: make(map[string][]porcupine.Operation)}
}

func (h *history) at(t time.Time) int64 { return int64(t.Sub(h.start)) }

// newHold numbers a hold.
func (h *history) newHold() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds++
	return h.holds
}

// add notes an operation on key that happened between call and ret; a zero ret is never.
func (h *history) add(key string, o op, call, ret time.Time) {
	done := int64(never)
	if !ret.IsZero() {
		done = h.at(ret)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byKey[key] = append(h.byKey[key], porcupine.Operation{
		ClientId: o.hold, Input: o, Call: min(h.at(call), done), Return: done,
	})
}

// forget notes that a lock, or every one if key is "", may have been forgotten between from and now.
func (h *history) forget(key string, from time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgets = append(h.forgets, span{key, h.at(from), h.at(time.Now())})
}

// excepting is ops on key with every hold ended, as far as the model is concerned, when it may have been forgotten.
func excepting(key string, ops []porcupine.Operation, forgets []span) []porcupine.Operation {
	out := append([]porcupine.Operation(nil), ops...)
	granted := make(map[int]int64)
	for _, o := range ops {
		if in := o.Input.(op); in.action == grant {
			granted[in.hold] = o.Call
		}
	}
	for i, o := range out {
		in := o.Input.(op)
		if in.action != end {
			continue
		}
		for _, f := range forgets {
			if (f.key == "" || f.key == key) && granted[in.hold] <= f.to && o.Call >= f.from {
				out[i].Call = min(out[i].Call, max(f.from, granted[in.hold]))
			}
		}
	}
	return out
}
