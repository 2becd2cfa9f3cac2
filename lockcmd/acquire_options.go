package lockcmd

import (
	"strconv"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// acquireOptions is what an ACQUIRE asks for, parsed and checked.
type acquireOptions struct {
	db    int
	key   string
	mode  *script.Mode
	owner string // "" for a generated owner
	id    string
	wait  bool
	block time.Duration // how long to wait; 0 for no limit
	ttl   time.Duration // TTL or LEASE
	script.Terms
	replicas int64 // that must have the grant
	token    int64 // ATTACH: the token of the hold; else 0
}

func (opts acquireOptions) lock() script.Lock { return script.Lock{DB: opts.db, Key: opts.key} }

const acquireName = "LOCK.ACQUIRE"

func (s *Service) parseAcquire(args [][]byte) (opts acquireOptions, msg string) {
	if len(args) < 2 {
		return opts, msgArity(acquireName)
	}
	o, msg := parseOptions(args[2:], acquireWords)
	if msg != "" {
		return opts, msg
	}
	key := string(args[1])
	if opts, msg = s.acquireOptionsOf(acquireName, o, key); msg != "" {
		return opts, msg
	}
	opts.key = key
	return opts, s.keyError(opts.key)
}

// acquireOptionsOf checks the options of a command for some keys.
func (s *Service) acquireOptionsOf(command string, o options, keys ...string) (opts acquireOptions, msg string) {
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
		if *ms < 1 || *ms > script.MaxTTL.Milliseconds() {
			return opts, msgExpire(command)
		}
		opts.ttl = time.Duration(*ms) * time.Millisecond
	}
	opts.replicas = o.replicas
	opts.Terms = o.terms
	opts.Lease, opts.Fair, opts.MaxHold = o.lease != nil, m.Fair, s.maxHoldOf(keys)
	if command == semAcquireName {
		opts.MaxHold = 0 // MAXHOLD is for locks only
	}
	if o.maxHold != nil {
		if *o.maxHold < 1 || *o.maxHold > script.MaxTTL.Milliseconds() {
			return opts, msgExpire(command)
		}
		if asked := script.Millis(*o.maxHold); opts.MaxHold == 0 || asked < opts.MaxHold {
			opts.MaxHold = asked
		}
	}
	if o.idle != nil {
		if *o.idle < 1 || *o.idle > script.MaxTTL.Milliseconds() {
			return opts, msgExpire(command)
		}
		opts.Idle = script.Millis(*o.idle)
	}
	if opts.Lease && opts.MaxHold > 0 {
		opts.ttl = hold.CapLease(opts.ttl, opts.MaxHold)
	}
	if !opts.Lease && opts.ttl < MinTTL {
		return opts, "ERR invalid TTL: the minimum is " + strconv.FormatInt(MinTTL.Milliseconds(), 10) + " ms"
	}
	return opts, ""
}

// maxHoldOf returns the longest time for which locks may be held together. Zero means no limit.
func (s *Service) maxHoldOf(keys []string) time.Duration {
	most := time.Duration(s.maxHold.Load())
	if s.cfg.MaxHoldOf == nil {
		return most
	}
	for _, key := range keys {
		if limit := s.cfg.MaxHoldOf(key); limit > 0 && (most == 0 || limit < most) {
			most = limit
		}
	}
	return most
}

// nameLimit returns the error for an acquire of keys that would give n holds each, if there are too
// many of their names. It is empty if there is room.
func (s *Service) nameLimit(n int64, keys ...string) string {
	if s.cfg.NameHolds == nil {
		return ""
	}
	if pattern := s.cfg.NameHolds.Full(keys, n); pattern != "" {
		s.stats.nameLimited.Add(1)
		return msgNameLimit + pattern + "'"
	}
	return ""
}

// parseBlock returns whether a command waits, and how long. A block of 0 has no limit.
func (o options) parseBlock() (wait bool, block time.Duration, msg string) {
	switch {
	case o.block == nil:
		return false, 0, ""
	case *o.block < 0:
		return false, 0, msgBlockNegative
	case *o.block > script.MaxTTL.Milliseconds():
		return false, 0, msgBlockRange
	}
	return true, script.Millis(*o.block), ""
}

// requestedMode returns the mode that the options of an ACQUIRE name.
func (o options) requestedMode() (m *script.Mode, msg string) {
	for _, m := range script.Modes {
		if m.Option == o.mode {
			return m, ""
		}
	}
	return nil, msgSyntax
}

// meansMode reports whether the options of a command about an existing hold allow mode m. Without a
// mode they allow every mode of a lock.
func (o options) meansMode(m *script.Mode) bool {
	return o.mode == "" && m != script.Permit || o.mode == m.Option
}

// keyError refuses two kinds of keys: one whose helper keys would be in another slot of Redis
// Cluster (R10), and one that belongs to another lock. It returns "" for other keys.
func (s *Service) keyError(key string) string {
	if script.IsHelper(key) {
		return msgHelper
	}
	if s.redis.IsCluster && !script.OneSlot(key) {
		return msgSlots
	}
	return ""
}
