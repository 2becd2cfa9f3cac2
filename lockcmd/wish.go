package lockcmd

import (
	"strconv"
	"time"
)

// wish is what an ACQUIRE asks for.
type wish struct {
	db    int
	key   string
	mode  *mode
	owner string // "" for an owner of its own
	id    string
	wait  bool
	block time.Duration // how long to wait; 0 for ever
	ttl   time.Duration // the lease
	terms
	replicas int64 // which must have it
	token    int64 // of the hold to ATTACH; 0 for an ACQUIRE
}

func (w wish) lock() lockID { return lockID{w.db, w.key} }

const acquireName = "LOCK.ACQUIRE"

func (s *Service) parseAcquire(args [][]byte) (w wish, msg string) {
	if len(args) < 2 {
		return w, msgArity(acquireName)
	}
	o, msg := parseOptions(args[2:], acquireOptions)
	if msg != "" {
		return w, msg
	}
	if w, msg = s.wishOf(acquireName, o); msg != "" {
		return w, msg
	}
	w.key = string(args[1])
	return w, s.keyError(w.key)
}

// wishOf is what the options of a command ask for, of any key.
func (s *Service) wishOf(command string, o options) (w wish, msg string) {
	m, msg := o.asked()
	if msg != "" {
		return w, msg
	}
	w = wish{mode: m, owner: o.owner, id: o.id, ttl: s.cfg.WatchdogTimeout}
	if w.wait, w.block, msg = o.waits(); msg != "" {
		return w, msg
	}
	if o.lease != nil && *o.lease == -1 { // Redisson's word for none
		o.lease = nil
	}
	if o.lease != nil && o.ttl != nil {
		return w, msgLeaseAndTTL
	}
	for _, ms := range []*int64{o.lease, o.ttl} {
		if ms == nil {
			continue
		}
		if *ms < 1 || *ms > maxTTL.Milliseconds() {
			return w, msgExpire(command)
		}
		w.ttl = time.Duration(*ms) * time.Millisecond
	}
	w.replicas = o.replicas
	w.lease, w.stays, w.answers, w.fair, w.max = o.lease != nil, o.stays, o.answers, m.fair, s.cfg.MaxHold
	if command == semAcquireName {
		w.max = 0 // which is for locks
	}
	if o.max != nil {
		if *o.max < 1 || *o.max > maxTTL.Milliseconds() {
			return w, msgExpire(command)
		}
		if asked := millis(*o.max); w.max == 0 || asked < w.max {
			w.max = asked
		}
	}
	if o.idle != nil {
		if *o.idle < 1 || *o.idle > maxTTL.Milliseconds() {
			return w, msgExpire(command)
		}
		w.idle = millis(*o.idle)
	}
	if w.lease && w.max > 0 {
		w.ttl = leaseWithin(w.ttl, w.max)
	}
	if !w.lease && w.ttl < MinTTL {
		return w, "ERR invalid TTL: the minimum is " + strconv.FormatInt(MinTTL.Milliseconds(), 10) + " ms"
	}
	return w, ""
}

// waits is whether and how long a command waits; 0 is for ever.
func (o options) waits() (wait bool, block time.Duration, msg string) {
	switch {
	case o.block == nil:
		return false, 0, ""
	case *o.block < 0:
		return false, 0, msgBlockNegative
	case *o.block > maxTTL.Milliseconds():
		return false, 0, msgBlockRange
	}
	return true, millis(*o.block), ""
}

// asked is the mode that an ACQUIRE's options ask for.
func (o options) asked() (m *mode, msg string) {
	for _, m := range modes {
		if m.option == o.mode {
			return m, ""
		}
	}
	return nil, msgSyntax
}

// means reports whether the options of a command about a present hold mean one in mode m: any lock,
// if they name none.
func (o options) means(m *mode) bool { return o.mode == "" && m != permit || o.mode == m.option }

// keyError refuses a key whose helpers Redis Cluster would place in another slot (R10), and one
// that belongs to another lock.
func (s *Service) keyError(key string) string {
	if isHelper(key) {
		return msgHelper
	}
	if s.cluster && !oneSlot(key) {
		return msgSlots
	}
	return ""
}
