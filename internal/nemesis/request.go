package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// quorumKey is what those hold who have a quorum of quorumKeys.
const quorumKey = "quo"

var quorumKeys = []string{"quo:1", "quo:2", "quo:3", "quo:4", "quo:5"}

// allKinds are the kinds of locks that there are.
var allKinds = append([]string{"lock", "fair", "rw", "sem", quorumKey}, counterKinds...)

// keysOf are the locks of a run, of these kinds: few, so that they are contended.
func keysOf(kinds []string) (keys []string) {
	for _, key := range []string{"lock:1", "lock:2", "lock:3", "lock:4", "fair:1", "fair:2", "rw:1", "rw:2", "sem:1", "sem:2", quorumKey, "count", "latch"} {
		if slices.Contains(kinds, kindOf(key)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// longestTTL is the longest lease of any hold.
const longestTTL = 5 * time.Second

// request is an ACQUIRE to be sent.
type request struct {
	args     []string
	key      string
	mode     string
	owner    string
	id       string
	count    int           // of permits, or 0
	ttl      time.Duration // of the renewal
	lease    time.Duration // 0 for none
	most     time.Duration // MAXHOLD, 0 for none
	idle     time.Duration // 0 for none
	wait     time.Duration
	endless  bool // BLOCK 0: wait is for how long its client does
	replicas bool
	silent   bool   // ONLOSS ERROR
	repeated bool   // under its ID
	by       string // whose connection it was granted on, for stories
}

// one is true once in n times.
func (w *worker) one(n int) bool { return w.rnd.IntN(n) == 0 }

// millis is a random time of at least one of these and less than the other.
func (w *worker) millis(least, most int) time.Duration {
	return time.Duration(least+w.rnd.IntN(most-least)) * time.Millisecond
}

func (r *request) with(args ...string) { r.args = append(r.args, args...) }

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// request makes one for a single lock or semaphore.
func (w *worker) request(key string) *request {
	r := &request{key: key, mode: "plain", ttl: ttl, args: []string{"LOCK.ACQUIRE", key}}
	switch kind := kindOf(key); {
	case kind == "sem":
		r.mode, r.args[0] = "permit", "SEM.ACQUIRE"
		if w.one(4) {
			r.count = 2
			r.with("COUNT", "2")
		}
	case kind == "fair" && !w.one(8):
		r.mode = "fair"
		r.with("FAIR")
	case kind == "rw" && w.one(3):
		r.mode = "write"
		r.with("WRITE")
	case kind == "rw":
		r.mode = "read"
		r.with("READ")
	}
	w.terms(r)
	if r.mode == "permit" && w.one(3) {
		r.id = w.nextID()
		r.with("ID", r.id)
	}
	if r.mode != "permit" && w.one(3) {
		w.owners++
		r.owner = fmt.Sprintf("worker:%d.%d", w.number, w.owners)
		r.with("OWNER", r.owner)
		if w.one(2) {
			r.id = w.nextID()
			r.with("ID", r.id)
		}
		if r.lease == 0 && w.one(3) {
			r.with("ONCLOSE", "EXPIRE")
		}
	}
	return r
}

// terms adds how long to wait, and how the hold is kept.
func (w *worker) terms(r *request) {
	switch {
	case w.one(4):
	case r.mode != "several" && w.one(12):
		// several may have some in hand while they wait for the rest
		r.wait, r.endless = endlessPatience, true
		r.with("BLOCK", "0")
	default:
		r.wait = w.millis(1, 4000)
		r.with("BLOCK", ms(r.wait))
	}
	switch w.rnd.IntN(8) {
	case 0, 1:
		r.lease = w.millis(200, 2200)
		r.with("LEASE", ms(r.lease))
	case 2:
		r.ttl = w.millis(1000, int(longestTTL.Milliseconds()))
		r.with("TTL", ms(r.ttl))
	}
	if r.mode == "permit" {
		return
	}
	if w.one(8) {
		r.silent = true
		r.with("ONLOSS", "ERROR")
	}
	if w.one(16) {
		r.most = w.millis(300, 3000)
		r.with("MAXHOLD", ms(r.most))
	}
	if w.one(16) {
		r.idle = w.millis(400, 2000)
		r.with("IDLE", ms(r.idle))
	}
	if w.one(12) {
		r.replicas = true
		r.with("REPLICAS", "1")
	}
}

// tolerance is for how long the request may be unanswered, beside what was broken.
func (r *request) tolerance() time.Duration {
	if r.endless {
		return endlessSlack
	}
	return r.wait + replySlack
}

// kind is what the tally calls the request.
func (r *request) kind() string {
	switch {
	case strings.HasPrefix(r.args[0], "LOCK.MACQUIRE"):
		return "macquire " + r.mode
	case r.mode == "plain" && r.owner != "":
		return "acquire owner"
	}
	return "acquire " + r.mode
}
