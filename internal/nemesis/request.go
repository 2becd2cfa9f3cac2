package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"leash/internal/nemesis/history"
)

// allKinds lists the kinds of locks.
var allKinds = append([]string{"lock", "fair", "rw", "sem", history.QuorumKey}, history.CounterKinds...)

// keysOf returns the locks of a run that are of these kinds. There are few locks, so that clients
// compete for them.
func keysOf(kinds []string) (keys []string) {
	for _, key := range []string{"lock:1", "lock:2", "lock:3", "lock:4", "fair:1", "fair:2", "rw:1", "rw:2", "sem:1", "sem:2", history.QuorumKey, "count", "latch"} {
		if slices.Contains(kinds, history.KindOf(key)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// request is an acquire command to be sent.
type request struct {
	args        []string
	key         string
	mode        string
	owner       string
	id          string
	count       int           // number of permits; 0 for none
	ttl         time.Duration // the TTL of a renewed hold
	lease       time.Duration // LEASE, 0 for none
	most        time.Duration // MAXHOLD, 0 for none
	idle        time.Duration // IDLE, 0 for none
	wait        time.Duration
	endless     bool // BLOCK 0: wait is then how long the client waits
	replicas    bool
	errorOnLoss bool   // ONLOSS ERROR
	repeated    bool   // sent again with the same ID
	by          string // the worker and the connection of the grant, for reports
}

// oneIn returns true with a chance of 1 in n.
func (w *worker) oneIn(n int) bool { return w.rnd.IntN(n) == 0 }

// millis returns a random time in milliseconds, from least up to but not including most.
func (w *worker) millis(least, most int) time.Duration {
	return time.Duration(least+w.rnd.IntN(most-least)) * time.Millisecond
}

func (r *request) with(args ...string) { r.args = append(r.args, args...) }

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// request returns a random request for a single lock or semaphore.
func (w *worker) request(key string) *request {
	r := &request{key: key, mode: "plain", ttl: history.TTL, args: []string{"LOCK.ACQUIRE", key}}
	switch kind := history.KindOf(key); {
	case kind == "sem":
		r.mode, r.args[0] = "permit", "SEM.ACQUIRE"
		if w.oneIn(4) {
			r.count = 2
			r.with("COUNT", "2")
		}
	case kind == "fair" && !w.oneIn(8):
		r.mode = "fair"
		r.with("FAIR")
	case kind == "rw" && w.oneIn(3):
		r.mode = "write"
		r.with("WRITE")
	case kind == "rw":
		r.mode = "read"
		r.with("READ")
	}
	w.terms(r)
	if r.mode == "permit" && w.oneIn(3) {
		r.id = w.nextID()
		r.with("ID", r.id)
	}
	if r.mode != "permit" && w.oneIn(3) {
		w.owners++
		r.owner = fmt.Sprintf("worker:%d.%d", w.number, w.owners)
		r.with("OWNER", r.owner)
		if w.oneIn(2) {
			r.id = w.nextID()
			r.with("ID", r.id)
		}
		if r.lease == 0 && w.oneIn(3) {
			r.with("ONCLOSE", "EXPIRE")
		}
	}
	return r
}

// terms adds random options: how long to wait, and how long the hold may last.
func (w *worker) terms(r *request) {
	switch {
	case w.oneIn(4):
	case r.mode != "several" && w.oneIn(12):
		// A request for several locks may hold some while it waits for the rest. So it does not
		// wait without end.
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
		r.ttl = w.millis(1000, int(history.LongestTTL.Milliseconds()))
		r.with("TTL", ms(r.ttl))
	}
	if r.mode == "permit" {
		return
	}
	if w.oneIn(8) {
		r.errorOnLoss = true
		r.with("ONLOSS", "ERROR")
	}
	if w.oneIn(16) {
		r.most = w.millis(300, 3000)
		r.with("MAXHOLD", ms(r.most))
	}
	if w.oneIn(16) {
		r.idle = w.millis(400, 2000)
		r.with("IDLE", ms(r.idle))
	}
	if w.oneIn(12) {
		r.replicas = true
		r.with("REPLICAS", "1")
	}
}

// tolerance returns how long the reply may take, not counting the time of faults.
func (r *request) tolerance() time.Duration {
	if r.endless {
		return endlessSlack
	}
	return r.wait + replySlack
}

// kind returns the name of the request in the tally.
func (r *request) kind() string {
	switch {
	case strings.HasPrefix(r.args[0], "LOCK.MACQUIRE"):
		return "macquire " + r.mode
	case r.mode == "plain" && r.owner != "":
		return "acquire owner"
	}
	return "acquire " + r.mode
}
