// Package detection measures how long a lock stays with a holder that is gone: from the moment it
// is closed, killed, stopped or cut off until the next one in line has the lock.
//
// All of it runs in a room of its own (Enter): network and process namespaces of Linux, in which
// there are a Redis, a cluster, the Leashes before them, and beyond a switch the hosts that shall
// vanish. Nothing of that can be reached from outside, nothing reaches out, and when its first
// process ends the kernel takes all of it away.
//
// A mishap is one way to be gone. All mishaps of a round happen at the same time, each to a lock of
// its own, for most of the time is spent waiting. The next in line always waits on another Leash
// than the holder's.
package detection
