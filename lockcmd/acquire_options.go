package lockcmd

import (
	"strconv"
	"time"
)

// acquireOptions is what an ACQUIRE asks for, parsed and checked.
type acquireOptions struct {
	db    int
	key   string
	mode  *mode
	owner string // "" for a generated owner
	id    string
	wait  bool
	block time.Duration // how long to wait; 0 for no limit
	ttl   time.Duration // TTL or LEASE
	holdTerms
	replicas int64 // that must have the grant
	token    int64 // ATTACH: the token of the hold; else 0
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

// acquireOptionsOf checks the options of a command, for any key.
func (s *Service) acquireOptionsOf(command string, o options) (opts acquireOptions, msg string) {
	m, msg := o.requestedMode()
	if msg != "" {
		return opts, msg
	}
	opts = acquireOptions{mode: m, owner: o.owner, id: o.id, ttl: s.cfg.WatchdogTimeout}
	if opts.wait, opts.block, msg = o.parseBlock(); msg != "" {
		return opts, msg
	}
	if o.lease != nil && *o.lease == -1 { // Redisson's value for no lease
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
		opts.maxHold = 0 // MAXHOLD is for locks only
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

// parseBlock returns whether a command waits, and how long. A block of 0 has no limit.
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

// requestedMode returns the mode that the options of an ACQUIRE name.
func (o options) requestedMode() (m *mode, msg string) {
	for _, m := range modes {
		if m.option == o.mode {
			return m, ""
		}
	}
	return nil, msgSyntax
}

// meansMode reports whether the options of a command about an existing hold allow mode m. Without a
// mode they allow every mode of a lock.
func (o options) meansMode(m *mode) bool { return o.mode == "" && m != permit || o.mode == m.option }

// keyError refuses two kinds of keys: one whose helper keys would be in another slot of Redis
// Cluster (R10), and one that belongs to another lock. It returns "" for other keys.
func (s *Service) keyError(key string) string {
	if isHelper(key) {
		return msgHelper
	}
	if s.cluster && !oneSlot(key) {
		return msgSlots
	}
	return ""
}
