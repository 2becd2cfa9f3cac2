package main

import "time"

// idleTimeout is how long a Leash may take to notice that its clients are gone.
const idleTimeout = 15 * time.Second

// quiet is what Leash says of itself when it has no client but the one that asks.
var quiet = []string{
	"sessions:1", "pinned_connections:0", "holds:0", "waiters:0", "subscribers:0", "protocol_errors:0", "panics:0",
}

// idle is what it says some seconds later, for it listens to a lock's channel a little longer than
// anybody waits. The subscription that remains is its own.
var idle = append([]string{"upstream_subscriptions:2"}, quiet...)
