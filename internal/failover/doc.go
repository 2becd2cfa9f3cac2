// Package failover is a model of what the failover of a Redis master does to a lock, small enough
// to be searched through: two servers that take turns as the master of one slot, two Leashes, and
// owners who want the one lock there.
//
// A [Model] says which rules the Leashes and the scripts obey, and how long things last, in ticks.
// [Model.Search] visits every state that can be reached, in any order of events: requests are late,
// lost or overtaken, a Leash notices a failover late or never, the replica that is promoted has any
// earlier state of its master's, and the old master may serve on for some ticks. It stops at the
// first state that breaks a promise, and tells how one gets there.
//
// The promises: no two owners believe in the lock at the same time: a belief begins with the reply
// to an acquire, and ends at the latest a TTL after the last request was sent that was granted or
// renewed. No owner is told that the lock is lost while it may believe in it: nobody has taken it
// away. A release ends the hold exactly when it is the owner's last one. And nothing is put back
// that was released.
//
// Owners may enter the lock again, move it to the other Leash, or make a lease of it and set its
// time (Counts, Moves, Extends). What a new master has in an older state is then put right.
//
// What is assumed: beliefs end in time, the servers' clocks go at one pace, and an old master stops
// within Overlap, before the lease or the grace that it had when it was replaced is over. The last
// was found by the search: a hold may be renewed at the new master only, run out at the old one,
// and be granted there to somebody else. Of who enters, moves and extends it is assumed besides
// that its Leash puts the hold right before the grace is over, and sends nothing more to the old
// master once the new one has answered.
package failover
