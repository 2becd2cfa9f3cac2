// Package detection measures how long a lock stays with a holder that is gone. The time counts from
// when the holder is closed, killed, stopped or cut off, until the next waiter has the lock.
//
// Everything runs in network and process namespaces of Linux (Enter). In them are a Redis, a
// cluster, the Leashes in front of both, and beyond a switch the hosts that are to vanish. Nothing
// inside can be reached from outside, and nothing reaches out. When the first process ends, the
// kernel removes all of it.
//
// A failure is one way to be gone. All failures of a round happen at the same time, each to a lock
// of its own, because most of the time is spent waiting. The next waiter is always on another Leash
// than the holder.
package detection
