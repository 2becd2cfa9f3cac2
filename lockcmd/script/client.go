package script

import (
	"errors"

	"leash/lockcmd/script/transport"
)

// ErrAbsent is the error for a hold that is not there.
var ErrAbsent = errors.New("lockcmd: no such hold")

// Client has a function for each lock script. Set the fields before the first call. It is safe for
// concurrent use.
type Client struct {
	*transport.Client
	Publish string // the ways to publish: "p" for PUBLISH, "s" for SPUBLISH, "ps" for both
}

// New makes a client for the Redis that has these links.
func New(links transport.Links) *Client { return &Client{Client: transport.New(links)} }

// Lock names a lock, a semaphore, a counter or a latch. The same key in two databases is two locks
// (R8). They share one channel, because Redis's channels have no databases. A message about one of
// them also wakes the waiters of the other, which attempt once and wait on.
type Lock struct {
	DB  int
	Key string
}

// Ref names a hold.
type Ref struct {
	Lock    Lock
	Token   int64
	Carrier string
}

// Ref names a hold of a lock.
func (h Hold) Ref(lock Lock) Ref {
	return Ref{Lock: lock, Token: h.Record.Token, Carrier: h.Record.Carrier}
}
