package lockcmd

import (
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/hold"
)

// Values of Config.Publish: how wake-ups are published and received.
const (
	PublishBoth    = "both"    // PUBLISH, and SPUBLISH where Redis has it
	PublishSharded = "sharded" // SPUBLISH only: every Java peer runs in cluster mode
	PublishPlain   = "plain"   // PUBLISH only: no Java peer runs in cluster mode
)

// publishModes are the values of Config.Publish in the form that the scripts take.
var publishModes = map[string]string{PublishBoth: "ps", PublishSharded: "s", PublishPlain: "p"}

// NameHolds counts holds by the names of their locks.
type NameHolds interface {
	acquire.Names
	// Add changes how often a name is held. It does not block and is safe for concurrent use.
	Add(name string, n int64)
}

// Config configures a Service. The zero value is valid. Package config checks what users may set.
type Config struct {
	// TTL of a hold without LEASE and TTL; if zero, 30 s. At least MinTTL.
	WatchdogTimeout time.Duration
	// PublishBoth, PublishSharded or PublishPlain; if empty, PublishBoth
	Publish string
	// how long a token counter lives after its last acquire; if zero, for ever
	TokenTTL   time.Duration
	MaxWaiters int // how many commands may wait at once; if zero, 100,000
	// longest time that any lock may be held, as if each ACQUIRE said MAXHOLD; if zero, no limit
	MaxHold time.Duration
	// MaxHoldOf returns the longest time for a lock of that name, in addition to MaxHold; 0 for no
	// limit. It does not block. If nil, MaxHold is for all names.
	MaxHoldOf func(key string) time.Duration
	// NameHolds limits how many locks and permits clients of this Leash hold, by their names. nil:
	// no limit.
	NameHolds NameHolds
	// how long a lock script may take before its outcome is unknown; if zero, 10 s
	UpstreamTimeout time.Duration

	// how long a new master grants nothing; failover.Auto: as long as necessary; if zero, no grace
	FailoverGrace time.Duration
}

// MinTTL is the shortest TTL of a renewed hold.
const MinTTL = hold.MinTTL

func (c Config) withDefaults() Config {
	if c.WatchdogTimeout == 0 {
		c.WatchdogTimeout = 30 * time.Second
	}
	if c.Publish == "" {
		c.Publish = PublishBoth
	}
	if c.MaxWaiters == 0 {
		c.MaxWaiters = 100000
	}
	if c.UpstreamTimeout == 0 {
		c.UpstreamTimeout = 10 * time.Second
	}
	return c
}

// Change replaces MaxWaiters, with its default for zero, and MaxHold, which applies to locks that
// are asked for from now on. It reads no other field of cfg. Safe for concurrent use.
func (s *Service) Change(cfg Config) {
	cfg = cfg.withDefaults()
	s.Waits.SetMax(cfg.MaxWaiters)
	s.maxHold.Store(int64(cfg.MaxHold))
}
