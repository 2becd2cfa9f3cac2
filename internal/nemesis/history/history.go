// Package history records what the clients of a run saw of its locks, and what was broken when. It
// checks afterwards whether the locks did what Leash promises.
package history

import (
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Action is what an operation did to a lock.
type Action int

const (
	Grant        Action = iota // a new hold
	Reacquire                  // the owner acquired it once more
	InnerRelease               // the owner released one of several counts
	End                        // the hold ended

	// The actions on counters and latches.
	Set       // set the count of a new one
	Give      // added to a counter
	Take      // took from a counter
	GiveBack  // Leash gave back what it had taken for a client that was gone
	Read      // read the count
	CountDown // counted a latch down
	Await     // found a latch at zero
)

func (a Action) String() string {
	return [...]string{"grant", "reacquire", "inner release", "end", "set", "give", "take", "give back", "read", "count down", "await"}[a]
}

// Op is one operation on a lock, as a client saw it.
type Op struct {
	Action  Action
	Mode    string // see belief
	Hold    int    // the number of the hold, from 1; for counters and latches, that of the request
	Owner   string // "" for an owner of its own
	Token   int64  // the token of a grant; 0 for none
	Counted bool   // an end released the last of the owner's counts

	N       int64 // how many were given, taken or set
	Left    int64 // the reply about a counter or a latch
	Unknown bool  // it may have been done or not
}

// Never is the return time of an operation that may never have returned.
const Never = math.MaxInt64 / 2

// History records what happened to the locks of a run. It is safe for concurrent use.
type History struct {
	start  time.Time
	Faults *FaultTimeline
	logs   []string // the log files of the Leashes

	mu         sync.Mutex
	ByKey      map[string][]porcupine.Operation
	redisHolds map[string]*RedisHold // by key and token
	forgets    []*interval
	steps      []*clockStep // in the order of time
	holds      int
	requests   int                // about counters and latches
	holdEvents map[int][]event    // by hold
	lockEvents map[string][]event // by lock, for all its holders
}

// RedisHold is what the auditor must find in Redis of a hold, and what it has found.
type RedisHold struct {
	Hold       int
	Key, Token string
	Base       time.Duration // how long Redis may keep it without a renewal
	Replicas   bool          // taken with REPLICAS
	Lease      bool          // it is not renewed
	// ONLOSS ERROR: its client is told of a loss only in the reply to its next command
	ErrorOnLoss bool
	Sent, Got   time.Time // when the acquire was sent, and when the grant came
	ended       time.Time // when the belief in it ended
	released    time.Time // when it was certainly released in Redis; zero if that is unknown
	seen        time.Time // when the auditor saw it last
	reappeared  time.Time // when the auditor saw it after its release; zero for never
}

// over returns the time from which on Redis may keep the hold for its base. It is zero while a
// client believes in the hold. If a client got no reply after the grant, its belief ends at the
// time of its acquire. The grant may be long after that, and Redis counts from the grant on.
func (k *RedisHold) over() time.Time {
	if k.ended.IsZero() {
		return k.ended
	}
	return Later(k.ended, k.Got)
}

// interval is a time in which Redis may have forgotten a lock, in ns since the start.
type interval struct {
	key      string // "" for all locks
	from, to int64
	reported bool // the holder was told before, so this explains nothing
	failover bool // Redis did not forget what replicas had confirmed
}

// NewHistory makes the history of a run that begins now. logs are the log files of the Leashes.
func NewHistory(w *FaultTimeline, logs ...string) *History {
	return &History{
		start: time.Now(), Faults: w, logs: logs, ByKey: make(map[string][]porcupine.Operation), redisHolds: make(map[string]*RedisHold),
		holdEvents: make(map[int][]event), lockEvents: make(map[string][]event),
	}
}

// At is a time in ns since the start.
func (h *History) At(t time.Time) int64 { return int64(t.Sub(h.start)) }

// When returns a time as it is printed.
func (h *History) When(t time.Time) time.Duration { return time.Duration(h.At(t)) }

// NewHold returns the number of a new hold.
func (h *History) NewHold() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds++
	return h.holds
}

// NewRequest returns the number of a new request about a counter or a latch.
func (h *History) NewRequest() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	return h.requests
}

// AddRedisHold notes that a hold is in Redis under a key.
func (h *History) AddRedisHold(k *RedisHold) *RedisHold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if was := h.redisHolds[k.Key+" "+k.Token]; was != nil {
		k.seen = was.seen
	}
	h.redisHolds[k.Key+" "+k.Token] = k
	return k
}

// SetEnd notes when the belief in a hold ended, and when it was certainly released in Redis.
func (h *History) SetEnd(k *RedisHold, ended, released time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k.ended, k.released = ended, released
}

// LatestEnd returns when a hold must have ended in Redis in any case. It is zero while a client
// believes in the hold.
func (h *History) LatestEnd(k *RedisHold) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.ended.IsZero() {
		return time.Time{}
	}
	return k.over().Add(k.Base + lengthenedBy(h.stepsLocked(k.Key, h.At(k.Sent), Never)))
}

// Lengthen notes that Redis may keep a hold for d without a renewal.
func (h *History) Lengthen(k *RedisHold, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k.Base = max(k.Base, d)
}

// NoteSeen notes that Redis had a hold when it was asked.
func (h *History) NoteSeen(key, token string, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.redisHolds[key+" "+token]
	if k == nil {
		k = &RedisHold{Key: key, Token: token}
		h.redisHolds[key+" "+token] = k
	}
	if k.Hold == 0 && k.Sent.IsZero() {
		k.Sent = asked // no client has been told of it yet
	}
	if !k.released.IsZero() && asked.After(k.released) && k.reappeared.IsZero() {
		k.reappeared = asked
	}
	k.seen = asked
}

// Add notes an operation on key that happened between call and ret. If ret is zero, it may never
// have happened.
func (h *History) Add(key string, o Op, call, ret time.Time) {
	done := int64(Never)
	if !ret.IsZero() {
		done = h.At(ret)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ByKey[key] = append(h.ByKey[key], porcupine.Operation{
		ClientId: o.Hold, Input: o, Call: min(h.At(call), done), Return: done,
	})
}

// Forget notes that Redis may forget a lock from now on, until done is called. With key "", it may
// Forget every lock. With failover, it forgets only what no replica had. Call done with reported if
// the holders were told before. Otherwise Redis may still forget locks within late.
func (h *History) Forget(key string, failover bool) (done func(told bool, late time.Duration)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &interval{key: key, from: h.At(time.Now()), to: Never, failover: failover}
	h.forgets = append(h.forgets, s)
	return func(told bool, late time.Duration) {
		h.mu.Lock()
		defer h.mu.Unlock()
		s.to, s.reported = h.At(time.Now().Add(late)), told
	}
}

// Explained reports whether a hold of key may have ended early between from and to. Redis may have
// forgotten the lock, or a clock may have been stepped forward.
func (h *History) Explained(key string, from, to time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.forgets {
		if (f.key == "" || f.key == key) && h.At(from) <= f.to && h.At(to) >= f.from {
			return true
		}
	}
	by, _ := shortenedBy(h.stepsLocked(key, h.At(from), h.At(to)))
	return by > SmallStep
}

// TTL is the watchdog timeout of the Leashes.
const TTL = 3 * time.Second

// LongestTTL is the longest TTL of any hold.
const LongestTTL = 5 * time.Second
