// Package renewal is the watchdog. It renews holds in a store until they are removed from it, and
// reports in time when a hold can no longer be renewed. It knows no RESP, no sockets and no
// clients.
//
// # Types
//
// A [Watchdog] is given [Hold]s with [Watchdog.Add] and asks a [Store] to renew them. Each hold has
// a [Keeper], which is told when the hold ends. Package lockcmd provides both: its holds are the
// keepers, and its store runs the Lua scripts.
//
// # When a hold is renewed
//
// Holds of one database, kind and slot with one TTL form a group (group.go). The group has the due
// time, not the hold: every third of the TTL. The groups are spread over that third by slot number,
// 8 neighbouring slots one after the other, since they usually belong to one node.
//
// Holds that are due (due.go) go to their node in rounds (round.go, node.go). A round is one call
// with one or more batches. Other commands wait at the node until it has run, so the size of a
// round depends on the node:
//
//   - A node that keeps up gets small rounds, which take along what is due soon.
//   - A node that lags behind gets larger rounds, and several at a time. [Stats] tells the lag.
//   - Nodes do not wait for each other. Long and short TTLs of one node do not either.
//
// # Outcomes
//
// Each renewal of a hold has one of three outcomes:
//
//   - Renewed: the hold is safe for one TTL from when the request was sent.
//   - Ended: the store says that the hold is not ours any more. The [Outcome] says why.
//   - Unknown: there was no answer. The store is asked again soon, until the hold's Until. Then the
//     hold is lost, even if the store answers a moment later.
//
// A hold with a lease ([Plan].Lease) is not renewed. The store is asked whether it is still there.
// It is valid until its Until and over when the store says so. After Until the store is asked more
// often, because somebody may have extended the lease.
//
// # Time
//
// Time is the monotonic clock of this process. It is never compared with another machine's clock.
// The monotonic clock stops while the machine is suspended. So if the wall clock runs ahead of it,
// the difference counts as time that has passed (clock.go).
//
// # Concurrency
//
// All methods are safe for concurrent use. A Keeper is told of the end at most once, from a
// goroutine of the Watchdog, with no mutex held. It must not block, because other holds wait behind
// it. After Remove it may still be told of an end that was found before.
//
// # Not promised
//
// If this process does not run for longer than the margin (see [Until]), somebody else may have the
// lock before the loss is told. Only a fencing token protects from that.
package renewal
