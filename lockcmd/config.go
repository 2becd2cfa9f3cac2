package lockcmd

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Ways to publish wake-ups and to listen for them (Config.Publish).
const (
	PublishBoth    = "both"    // PUBLISH, and SPUBLISH where Redis has it
	PublishSharded = "sharded" // SPUBLISH only: every Java peer runs in cluster mode
	PublishPlain   = "plain"   // PUBLISH only: no Java peer runs in cluster mode
)

// Config is what a Service can be told. The zero value is valid.
type Config struct {
	// TTL of a hold without LEASE and TTL; if zero, 30 s. At least MinTTL.
	WatchdogTimeout time.Duration
	// PublishBoth, PublishSharded or PublishPlain; if empty, PublishBoth
	Publish string
	// how long a token counter outlives its last acquire; if zero, for ever
	TokenTTL   time.Duration
	MaxWaiters int // how many commands may wait at once; if zero, 100,000
	// for how long any lock may be held, as if each ACQUIRE said MAXHOLD; if zero, for as long as
	// one likes
	MaxHold time.Duration
	// how long a lock script may take before its outcome counts as unknown; if zero, 10 s
	UpstreamTimeout time.Duration

	// for how long nothing is granted on a new master; GraceAuto: as long as must be; if zero, not
	// at all
	FailoverGrace time.Duration

	// Owners says of each slot of a cluster which of its masters serves it, as a small number; -1
	// for none. Needed for FailoverGrace; it does not block.
	Owners func() []int
	// Database gives the client of a database other than 0, the same one each time and made as
	// New's is; it does not block. If nil, every carrier's locks lie where New's client looks.
	Database func(db int) redis.UniversalClient
	// SendScript is the fast way of lock scripts to Redis; if nil, they go by the clients of New and
	// Database alone.
	SendScript SendScript
	// SendScripts is so for the renewals.
	SendScripts SendScripts
	// NodeAddr is the address of the node of a cluster to which Wires sends what belongs to a slot,
	// "" for none; it does not block. If nil, New's client is asked.
	NodeAddr func(slot int) string
	// RefreshTopology is told when a server does not serve as expected, so that somebody may look which one
	// does; it does not block. If nil, go-redis's own looking must do.
	RefreshTopology func()

	// DropConnection is told of a script's reply of a wrong shape, which Wire or Wires has brought from
	// the node of a slot: the connections for scripts to it are to end. It does not block. If nil,
	// they go on.
	DropConnection func(db, slot int)
}

// MinTTL is the shortest TTL a renewed hold may have: renewal three times within it must have a
// chance.
const MinTTL = 100 * time.Millisecond

// maxTTL keeps times within what Redis can add to its clock and what a time.Duration can hold.
const maxTTL = 100 * 365 * 24 * time.Hour

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

func (c Config) validate() error {
	switch {
	case c.WatchdogTimeout < MinTTL || c.WatchdogTimeout > maxTTL:
		return fmt.Errorf("lockcmd: watchdog timeout %v, want %v to %v", c.WatchdogTimeout, MinTTL, maxTTL)
	case c.TokenTTL < 0 || c.TokenTTL > maxTTL || c.TokenTTL > 0 && c.TokenTTL < time.Millisecond:
		return fmt.Errorf("lockcmd: token TTL %v, want 0 or 1ms to %v", c.TokenTTL, maxTTL)
	case c.MaxWaiters < 1:
		return fmt.Errorf("lockcmd: max waiters %d, want at least 1", c.MaxWaiters)
	case c.MaxHold < 0 || c.MaxHold > maxTTL || c.MaxHold > 0 && c.MaxHold < time.Millisecond:
		return fmt.Errorf("lockcmd: max hold %v, want 0 or 1ms to %v", c.MaxHold, maxTTL)
	case c.UpstreamTimeout < time.Millisecond:
		return fmt.Errorf("lockcmd: upstream timeout %v, want at least 1ms", c.UpstreamTimeout)
	case c.FailoverGrace != GraceAuto && c.FailoverGrace != 0 && c.FailoverGrace < c.WatchdogTimeout:
		return fmt.Errorf("lockcmd: failover grace %v, want 0 or at least the watchdog timeout %v", c.FailoverGrace, c.WatchdogTimeout)
	case c.Publish != PublishBoth && c.Publish != PublishSharded && c.Publish != PublishPlain:
		return fmt.Errorf("lockcmd: publish %q, want %s, %s or %s", c.Publish, PublishBoth, PublishSharded, PublishPlain)
	}
	return nil
}

// publishMode is Publish as the scripts take it.
func (c Config) publishMode() string {
	switch c.Publish {
	case PublishSharded:
		return "s"
	case PublishPlain:
		return "p"
	}
	return "ps"
}
