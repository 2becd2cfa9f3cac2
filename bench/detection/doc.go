// Package detection measures how long a lock stays with a holder that has disappeared. The time
// begins when the holder is closed, killed, stopped or cut off. It ends when the next waiter has
// the lock.
//
// Everything runs in network and process namespaces of Linux (Enter). They contain a Redis, a
// cluster, the Leashes in front of both, and the hosts that will vanish, behind a switch. The
// namespaces are isolated from the outside. When the first process ends, the kernel removes all of
// them.
//
// A failure is one way in which a holder can disappear. All failures of a round happen at the same
// time, each to a lock of its own, because most of the time is spent waiting. The next waiter is
// always on another Leash than the holder.
package detection
