package main

import "time"

// idleTimeout is how long a Leash may take to detect that its clients are gone.
const idleTimeout = 15 * time.Second

// noClients is INFO of a Leash that has no client except the one that asks.
var noClients = []string{
	"sessions:1", "pinned_connections:0", "holds:0", "waiters:0", "subscribers:0", "protocol_errors:0", "panics:0",
}

// idle is INFO some seconds later. Leash stays subscribed to a lock's channel for some seconds
// after the last waiter. The remaining subscriptions are Leash's own.
var idle = append([]string{"upstream_subscriptions:2"}, noClients...)
