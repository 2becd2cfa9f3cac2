package transport

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"leash/proxy/slots"
)

// Client runs lock scripts on one Redis, a cluster or a single server. Set the fields before the
// first call. It is safe for concurrent use.
type Client struct {
	IsCluster bool
	Timeout   time.Duration // an attempt takes at most half of it
	Log       *slog.Logger
	Links     Links

	roundTrip roundTrip
	refusals  refusals
	Stopped   chan struct{} // closed by Stop
	lastTime  time.Time     // set before Stopped is closed; no request lasts longer
}

// New makes a client for the Redis that has these links.
func New(links Links) *Client {
	return &Client{IsCluster: links.Owners() != nil, Log: slog.Default(), Links: links, Stopped: make(chan struct{})}
}

// Stop ends all waits for Redis. Requests may still be sent and answered until the given time.
func (c *Client) Stop(last time.Time) {
	c.lastTime = last
	close(c.Stopped)
}

// CapAtStop returns until, or an earlier time when the client is stopped.
func (c *Client) CapAtStop(until time.Time) time.Time {
	select {
	case <-c.Stopped:
		if c.lastTime.Before(until) {
			return c.lastTime
		}
	default:
	}
	return until
}

// MaxAttempt is the longest time for one attempt of a request that can be repeated. The end of the
// Service may have to wait that long.
const MaxAttempt = 2 * time.Second

// attemptEnd is the time until which an attempt that begins now waits for Redis: at most half of
// the upstream timeout, so that a second one is possible, and not after until.
func (c *Client) attemptEnd(until time.Time) time.Time {
	limit := time.Now().Add(min(c.Timeout/2, MaxAttempt))
	if until = c.CapAtStop(until); until.Before(limit) {
		return until
	}
	return limit
}

// StoppedWithin waits for d. It returns true when the client is stopped first.
func (c *Client) StoppedWithin(d time.Duration) bool { return !c.Sleep(context.Background(), d) }

// Sleep waits for d. It returns false when ctx ends or the client is stopped first.
func (c *Client) Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.Stopped:
	}
	return false
}

// Deadline is when a request that begins now, and has no answer, counts as unknown.
func (c *Client) Deadline() time.Time { return time.Now().Add(c.Timeout) }

// Repeat sends a request until Redis has answered it, until limit, or until the client is stopped.
func (c *Client) Repeat(limit time.Time, send func(until time.Time) error) {
	for time.Now().Before(limit) && IsSilence(send(c.Deadline())) && !c.StoppedWithin(100*time.Millisecond) {
	}
}

// RefreshTopologyAfter starts a refresh of the topology after a node did not serve as expected. It
// does not block.
func (c *Client) RefreshTopologyAfter(v Verdict) {
	if v != Answered {
		c.Links.Refresh()
	}
}

// Value reads a string, "" if there is none.
func (c *Client) Value(db int, key string, until time.Time) (string, error) {
	for {
		reply, err := c.Do(until, db, Command{key, []string{"GET", key}})
		switch {
		case err == nil:
			return Reply{Text: reply}.String(), nil
		case Judge(err) == Answered:
			return "", err
		}
		if time.Now().After(until) || c.StoppedWithin(10*time.Millisecond) {
			return "", errors.Join(ErrRefused, err)
		}
	}
}

// nodeOf is the address of the node of a key, for logs.
func (c *Client) nodeOf(key string) string {
	return c.Links.NodeAddr(slots.Of([]byte(key)))
}

// SlotsByMaster returns the slots of each master that has any. Those of a single Redis are slot 0.
func (c *Client) SlotsByMaster() [][]slots.Slot {
	if !c.IsCluster {
		return [][]slots.Slot{{0}}
	}
	var all [][]slots.Slot
	for slot, owner := range c.Links.Owners() {
		for owner >= len(all) {
			all = append(all, nil)
		}
		if owner >= 0 {
			all[owner] = append(all[owner], slots.Slot(slot))
		}
	}
	return slices.DeleteFunc(all, func(own []slots.Slot) bool { return len(own) == 0 })
}

// PrintableKey is a key in a form that is safe in an error.
func PrintableKey(key string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}
		return r
	}, key)
}

// roundTrip is an estimate of how long a call takes. It follows a shorter call at once and longer
// ones slowly. It is safe for concurrent use.
type roundTrip struct{ nanos atomic.Int64 }

func (r *roundTrip) note(d time.Duration) {
	old := r.nanos.Load()
	if old == 0 || int64(d) < old {
		r.nanos.Store(int64(d))
		return
	}
	r.nanos.Store(old + (int64(d)-old)/16)
}

// RoundTrip is about how long the last calls took.
func (c *Client) RoundTrip() time.Duration { return time.Duration(c.roundTrip.nanos.Load()) }
