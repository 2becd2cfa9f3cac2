// Package failover is a model of what a failover of a Redis master does to a lock. It is small
// enough for an exhaustive search: two servers that become the master of one slot in turns, two
// Leashes, and owners that want the one lock there.
//
// A [Model] says which rules the Leashes and the scripts obey, and how long things last, in ticks.
// [Model.Search] visits every state that can be reached, with events in any order:
//
//   - Requests are late, lost or overtaken.
//   - A Leash notices a failover late or never.
//   - The replica that is promoted has any earlier state of its master.
//   - The old master goes on serving for some ticks.
//
// It stops at the first state that breaks a promise, and returns the events that lead there.
//
// # Promises
//
//   - Two owners never believe in the lock at the same time. A belief begins with the reply to an
//     acquire. It ends a TTL after the last request was sent that was granted or renewed.
//   - No owner is told that the lock is lost while it may believe in it and nobody took it away.
//   - A release ends the hold exactly if it is the owner's last one.
//   - A released hold is never restored.
//
// Owners may acquire the lock again, move it to the other Leash, or make it a lease and extend it
// (Counts, Moves, Extends). A new master that has an older state is then corrected.
//
// # Assumptions
//
//   - Beliefs end in time, and the servers' clocks have the same speed.
//   - An old master stops within Overlap, before the lease or the grace period is over that it had
//     when it was replaced. The search found that this is needed: a hold may be renewed at the new
//     master only, run out at the old one, and be granted there to another owner.
//   - If owners acquire again, move or extend, their Leash corrects the hold within the grace
//     period. It sends nothing more to the old master once the new one has answered.
package failover
