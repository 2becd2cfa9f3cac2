package main

import (
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

	// Those of counters and latches.
	set   // gave it a count
	give  // added to it
	take  // took from it
	back  // gave back what was taken for a client that had gone
	read  // asked for it
	down  // counted a latch down
	await // found a latch at zero
)

func (a action) String() string {
	return [...]string{"grant", "again", "inner", "end", "set", "give", "take", "back", "read", "down", "await"}[a]
}

// op is one operation on a lock, as a client saw it.
type op struct {
	action  action
	mode    string // as a belief's
	hold    int    // numbers the holds of a run, from 1; of counters and latches, the requests
	owner   string // "" for an owner of its own
	token   int64  // of a grant; 0 for none
	counted bool   // of an end: it was the last of the owner's counts

	n       int64 // as many were given, taken or set
	left    int64 // what a request about a counter was answered
	unknown bool  // nobody knows whether it was done
}

// never is when an operation returned of which nobody knows that it has.
const never = math.MaxInt64 / 2

// history is what happened to the locks of a run. It is safe for concurrent use.
type history struct {
	start  time.Time
	faults *faultTimeline
	logs   []string // files of the Leashes'

	mu       sync.Mutex
	byKey    map[string][]porcupine.Operation
	kept     map[string]*kept // by key and token
	forgets  []*interval
	jumps    []*jump // in the order of time
	holds    int
	requests int                // about counters and latches
	trails   map[int][]event    // by hold, what happened to it
	words    map[string][]event // by lock, what happened to it, whoever held it
}

// kept is how a hold went, for comparison with what is in Redis.
type kept struct {
	hold       int
	key, token string
	base       time.Duration // for how long it may be in Redis by itself
	replicas   bool          // taken with REPLICAS
	lease      bool          // it is not renewed
	// its client is told of a loss when it asks, and not before (ONLOSS ERROR)
	silent     bool
	sent, got  time.Time // of the grant
	ended      time.Time // nobody believes in it any more
	released   time.Time // and Redis does not have it any more; zero when that is not known
	seen, back time.Time // by the auditor, last and when it should not have been
}

// over is from when on the hold may be in Redis for its base yet; zero while it is believed in. Who
// hears nothing after the grant ends the belief in it at the question, which may have been long
// before: Redis counts from the grant on.
func (k *kept) over() time.Time {
	if k.ended.IsZero() {
		return k.ended
	}
	return later(k.ended, k.got)
}

// interval is a time in which a lock may have been forgotten, ns since the start.
type interval struct {
	key      string // "" for all of them
	from, to int64
	told     bool // nothing is forgotten: whoever held it was told before
	failover bool // what replicas have confirmed is not forgotten
}

func newHistory(w *faultTimeline, logs ...string) *history {
	return &history{
		start: time.Now(), faults: w, logs: logs, byKey: make(map[string][]porcupine.Operation), kept: make(map[string]*kept),
		trails: make(map[int][]event), words: make(map[string][]event),
	}
}

func (h *history) at(t time.Time) int64 { return int64(t.Sub(h.start)) }

// when is a time as it is printed.
func (h *history) when(t time.Time) time.Duration { return time.Duration(h.at(t)) }

// newHold numbers a hold.
func (h *history) newHold() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds++
	return h.holds
}

// newRequest numbers a request about a counter or a latch.
func (h *history) newRequest() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	return h.requests
}

// keep writes down what a hold has in Redis.
func (h *history) keep(r *request, key, token string, hold int, sent, got time.Time) *kept {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := &kept{hold: hold, key: key, token: token, base: max(r.ttl, r.lease), replicas: r.replicas, lease: r.lease > 0, silent: r.silent, sent: sent, got: got}
	if was := h.kept[key+" "+token]; was != nil {
		k.seen = was.seen
	}
	h.kept[key+" "+token] = k
	return k
}

func (h *history) settle(k *kept, ended, released time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k.ended, k.released = ended, released
}

// goneBy is when a hold must be over in Redis, whatever happens; zero while it is believed in.
func (h *history) goneBy(k *kept) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.ended.IsZero() {
		return time.Time{}
	}
	return k.over().Add(k.base + longer(h.jumpsLocked(k.key, h.at(k.sent), never)))
}

// lengthen says that a hold may be in Redis for so long by itself.
func (h *history) lengthen(k *kept, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k.base = max(k.base, d)
}

// sighting notes that Redis, asked at a time, had a hold.
func (h *history) sight(key, token string, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.kept[key+" "+token]
	if k == nil {
		k = &kept{key: key, token: token}
		h.kept[key+" "+token] = k
	}
	if k.hold == 0 && k.sent.IsZero() {
		k.sent = asked // nobody has been told of it, yet
	}
	if !k.released.IsZero() && asked.After(k.released) && k.back.IsZero() {
		k.back = asked
	}
	k.seen = asked
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

// forget notes that from now on, until done is called, a lock, or every one if key is "", may be
// forgotten; by a failover, what no replica had. If told then, its holders were told before; else
// it may still be forgotten within late.
func (h *history) forget(key string, failover bool) (done func(told bool, late time.Duration)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &interval{key: key, from: h.at(time.Now()), to: never, failover: failover}
	h.forgets = append(h.forgets, s)
	return func(told bool, late time.Duration) {
		h.mu.Lock()
		defer h.mu.Unlock()
		s.to, s.told = h.at(time.Now().Add(late)), told
	}
}

// explained reports whether something may have ended a hold of key before its time between from and
// to: by force, or by a step of the clock.
func (h *history) explained(key string, from, to time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.forgets {
		if (f.key == "" || f.key == key) && h.at(from) <= f.to && h.at(to) >= f.from {
			return true
		}
	}
	by, _ := shorter(h.jumpsLocked(key, h.at(from), h.at(to)))
	return by > moment
}
