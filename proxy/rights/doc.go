// Package rights asks Redis what a user may do. Leash answers some commands itself, and runs lock
// scripts as its own user. Before that, it asks here, so that no client can do more than its user
// may.
//
// # Concurrency
//
// A Checker is safe for concurrent use and starts no goroutine that outlives a call. Its methods
// block for a round trip, except where they say otherwise. No mutex is held meanwhile.
package rights

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"leash/internal/limits"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/upstream"
)

// Checker asks one upstream, and keeps its answers for a short time.
type Checker struct {
	up       *upstream.Upstream
	log      *slog.Logger
	refusals refusals
	warned   limits.Interval
	// Redis refuses ACL DRYRUN to Leash's own user, as some managed services do: no attempt until
	// then, in nanoseconds since 1970
	noDryRunUntil atomic.Int64
}

// New returns a Checker. up must be connected before the Checker is asked.
func New(up *upstream.Upstream, log *slog.Logger) *Checker { return &Checker{up: up, log: log} }

// warnInterval is the time between two warnings, because many commands fail for the same reason.
const warnInterval = time.Minute

// Warn logs why nobody could tell what a user may do. It does nothing if that client has left.
func (c *Checker) Warn(user string, err error) {
	if !errors.Is(err, context.Canceled) && c.warned.Due(time.Now(), warnInterval) {
		c.log.Warn("cannot check the rights of a user", "user", user, "err", err)
	}
}

// ask sends n commands to a master as Leash's own user: to first, or to any if it is nil. If that
// does not answer soon, it asks others. A reply may be an error of Redis.
func (c *Checker) ask(ctx context.Context, first *links.Node, commands []byte, n int) (replies []byte, err error) {
	lane := dial.Lane{Rights: true}.As(c.up.Dialer.ServiceLane().User)
	return c.up.FirstAnswer(ctx, first, func(ctx context.Context, node *links.Node) ([]byte, error) {
		return node.Link(lane).AskAll(ctx, commands, n)
	})
}

// isOwn reports whether a user is that of Leash's own connections.
func (c *Checker) isOwn(user string) bool { return user == c.up.Dialer.ServiceUser() }
