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
	grant        action = iota // a new hold
	reacquire                  // the owner acquired it once more
	innerRelease               // the owner released one of several counts
	end                        // the hold ended

	// The actions on counters and latches.
	set       // set the count of a new one
	give      // added to a counter
	take      // took from a counter
	giveBack  // Leash gave back what it had taken for a client that was gone
	read      // read the count
	countDown // counted a latch down
	await     // found a latch at zero
)

func (a action) String() string {
	return [...]string{"grant", "reacquire", "inner release", "end", "set", "give", "take", "give back", "read", "count down", "await"}[a]
}

// op is one operation on a lock, as a client saw it.
type op struct {
	action  action
	mode    string // see belief
	hold    int    // the number of the hold, from 1; for counters and latches, that of the request
	owner   string // "" for an owner of its own
	token   int64  // the token of a grant; 0 for none
	counted bool   // an end released the last of the owner's counts

	n       int64 // how many were given, taken or set
	left    int64 // the reply about a counter or a latch
	unknown bool  // it may have been done or not
}

// never is the return time of an operation that may never have returned.
const never = math.MaxInt64 / 2

// history records what happened to the locks of a run. It is safe for concurrent use.
type history struct {
	start  time.Time
	faults *faultTimeline
	logs   []string // the log files of the Leashes

	mu         sync.Mutex
	byKey      map[string][]porcupine.Operation
	redisHolds map[string]*redisHold // by key and token
	forgets    []*interval
	steps      []*clockStep // in the order of time
	holds      int
	requests   int                // about counters and latches
	holdEvents map[int][]event    // by hold
	lockEvents map[string][]event // by lock, for all its holders
}

// redisHold is what the auditor must find in Redis of a hold, and what it has found.
type redisHold struct {
	hold       int
	key, token string
	base       time.Duration // how long Redis may keep it without a renewal
	replicas   bool          // taken with REPLICAS
	lease      bool          // it is not renewed
	// ONLOSS ERROR: its client is told of a loss only in the reply to its next command
	errorOnLoss bool
	sent, got   time.Time // when the acquire was sent, and when the grant came
	ended       time.Time // when the belief in it ended
	released    time.Time // when it was certainly released in Redis; zero if that is unknown
	seen        time.Time // when the auditor saw it last
	reappeared  time.Time // when the auditor saw it after its release; zero for never
}

// over returns the time from which on Redis may keep the hold for its base. It is zero while a
// client believes in the hold. If a client got no reply after the grant, its belief ends at the
// time of its acquire. The grant may be long after that, and Redis counts from the grant on.
func (k *redisHold) over() time.Time {
	if k.ended.IsZero() {
		return k.ended
	}
	return later(k.ended, k.got)
}

// interval is a time in which Redis may have forgotten a lock, in ns since the start.
type interval struct {
	key      string // "" for all locks
	from, to int64
	reported bool // the holder was told before, so this explains nothing
	failover bool // Redis did not forget what replicas had confirmed
}

func newHistory(w *faultTimeline, logs ...string) *history {
	return &history{
		start: time.Now(), faults: w, logs: logs, byKey: make(map[string][]porcupine.Operation), redisHolds: make(map[string]*redisHold),
		holdEvents: make(map[int][]event), lockEvents: make(map[string][]event),
	}
}

func (h *history) at(t time.Time) int64 { return int64(t.Sub(h.start)) }

// when returns a time as it is printed.
func (h *history) when(t time.Time) time.Duration { return time.Duration(h.at(t)) }

// newHold returns the number of a new hold.
func (h *history) newHold() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds++
	return h.holds
}

// newRequest returns the number of a new request about a counter or a latch.
func (h *history) newRequest() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	return h.requests
}

// addRedisHold notes that a hold is in Redis under a key.
func (h *history) addRedisHold(r *request, key, token string, hold int, sent, got time.Time) *redisHold {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := &redisHold{hold: hold, key: key, token: token, base: max(r.ttl, r.lease), replicas: r.replicas, lease: r.lease > 0, errorOnLoss: r.errorOnLoss, sent: sent, got: got}
	if was := h.redisHolds[key+" "+token]; was != nil {
		k.seen = was.seen
	}
	h.redisHolds[key+" "+token] = k
	return k
}

// setEnd notes when the belief in a hold ended, and when it was certainly released in Redis.
func (h *history) setEnd(k *redisHold, ended, released time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k.ended, k.released = ended, released
}

// latestEnd returns when a hold must have ended in Redis in any case. It is zero while a client
// believes in the hold.
func (h *history) latestEnd(k *redisHold) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.ended.IsZero() {
		return time.Time{}
	}
	return k.over().Add(k.base + lengthenedBy(h.stepsLocked(k.key, h.at(k.sent), never)))
}

// lengthen notes that Redis may keep a hold for d without a renewal.
func (h *history) lengthen(k *redisHold, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k.base = max(k.base, d)
}

// noteSeen notes that Redis had a hold when it was asked.
func (h *history) noteSeen(key, token string, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.redisHolds[key+" "+token]
	if k == nil {
		k = &redisHold{key: key, token: token}
		h.redisHolds[key+" "+token] = k
	}
	if k.hold == 0 && k.sent.IsZero() {
		k.sent = asked // no client has been told of it yet
	}
	if !k.released.IsZero() && asked.After(k.released) && k.reappeared.IsZero() {
		k.reappeared = asked
	}
	k.seen = asked
}

// add notes an operation on key that happened between call and ret. If ret is zero, it may never
// have happened.
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

// forget notes that Redis may forget a lock from now on, until done is called. With key "", it may
// forget every lock. With failover, it forgets only what no replica had. Call done with reported if
// the holders were told before. Otherwise Redis may still forget locks within late.
func (h *history) forget(key string, failover bool) (done func(told bool, late time.Duration)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &interval{key: key, from: h.at(time.Now()), to: never, failover: failover}
	h.forgets = append(h.forgets, s)
	return func(told bool, late time.Duration) {
		h.mu.Lock()
		defer h.mu.Unlock()
		s.to, s.reported = h.at(time.Now().Add(late)), told
	}
}

// explained reports whether a hold of key may have ended early between from and to. Redis may have
// forgotten the lock, or a clock may have been stepped forward.
func (h *history) explained(key string, from, to time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.forgets {
		if (f.key == "" || f.key == key) && h.at(from) <= f.to && h.at(to) >= f.from {
			return true
		}
	}
	by, _ := shortenedBy(h.stepsLocked(key, h.at(from), h.at(to)))
	return by > smallStep
}
