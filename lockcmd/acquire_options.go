package lockcmd

import (
	"strconv"
	"time"
)

// acquireOptions is what an ACQUIRE asks for.
type acquireOptions struct {
	db    int
	key   string
	mode  *mode
	owner string // "" for an owner of its own
	id    string
	wait  bool
	block time.Duration // how long to wait; 0 for ever
	ttl   time.Duration // the lease
	holdTerms
	replicas int64 // which must have it
	token    int64 // of the hold to ATTACH; 0 for an ACQUIRE
}

func (opts acquireOptions) lock() lockID { return lockID{opts.db, opts.key} }

const acquireName = "LOCK.ACQUIRE"

func (s *Service) parseAcquire(args [][]byte) (opts acquireOptions, msg string) {
	if len(args) < 2 {
		return opts, msgArity(acquireName)
	}
	o, msg := parseOptions(args[2:], acquireWords)
	if msg != "" {
		return opts, msg
	}
	if opts, msg = s.acquireOptionsOf(acquireName, o); msg != "" {
		return opts, msg
	}
	opts.key = string(args[1])
	return opts, s.keyError(opts.key)
}

// acquireOptionsOf is what the options of a command ask for, of any key.
func (s *Service) acquireOptionsOf(command string, o options) (opts acquireOptions, msg string) {
	m, msg := o.requestedMode()
	if msg != "" {
		return opts, msg
	}
	opts = acquireOptions{mode: m, owner: o.owner, id: o.id, ttl: s.cfg.WatchdogTimeout}
	if opts.wait, opts.block, msg = o.parseBlock(); msg != "" {
		return opts, msg
	}
	if o.lease != nil && *o.lease == -1 { // Redisson's word for none
		o.lease = nil
	}
	if o.lease != nil && o.ttl != nil {
		return opts, msgLeaseAndTTL
	}
	for _, ms := range []*int64{o.lease, o.ttl} {
		if ms == nil {
			continue
		}
		if *ms < 1 || *ms > maxTTL.Milliseconds() {
			return opts, msgExpire(command)
		}
		opts.ttl = time.Duration(*ms) * time.Millisecond
	}
	opts.replicas = o.replicas
	opts.lease, opts.stayOnClose, opts.errorOnLoss, opts.fair, opts.maxHold = o.lease != nil, o.stayOnClose, o.errorOnLoss, m.fair, s.cfg.MaxHold
	if command == semAcquireName {
		opts.maxHold = 0 // which is for locks
	}
	if o.maxHold != nil {
		if *o.maxHold < 1 || *o.maxHold > maxTTL.Milliseconds() {
			return opts, msgExpire(command)
		}
		if asked := millis(*o.maxHold); opts.maxHold == 0 || asked < opts.maxHold {
			opts.maxHold = asked
		}
	}
	if o.idle != nil {
		if *o.idle < 1 || *o.idle > maxTTL.Milliseconds() {
			return opts, msgExpire(command)
		}
		opts.idle = millis(*o.idle)
	}
	if opts.lease && opts.maxHold > 0 {
		opts.ttl = capLease(opts.ttl, opts.maxHold)
	}
	if !opts.lease && opts.ttl < MinTTL {
		return opts, "ERR invalid TTL: the minimum is " + strconv.FormatInt(MinTTL.Milliseconds(), 10) + " ms"
	}
	return opts, ""
}

// parseBlock is whether and how long a command waits; 0 is for ever.
func (o options) parseBlock() (wait bool, block time.Duration, msg string) {
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

// requestedMode is the mode that an ACQUIRE's options ask for.
func (o options) requestedMode() (m *mode, msg string) {
	for _, m := range modes {
		if m.option == o.mode {
			return m, ""
		}
	}
	return nil, msgSyntax
}

// meansMode reports whether the options of a command about a present hold mean one in mode m: any lock,
// if they name none.
func (o options) meansMode(m *mode) bool { return o.mode == "" && m != permit || o.mode == m.option }

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
