// Package renewal is the watchdog: it keeps holds alive in a store until they are taken away from
// it, and says in time when that cannot be done any more.
//
// A [Watchdog] is given [Hold]s, and asks a [Store] to renew them. Holds of one slot with one TTL
// form a group, and a group has the due times, not a hold: a third of the TTL apart, spread over
// that third by the slot's number. Neighbouring slots, which are of one node as a rule, have their
// turns one after the other, 32 of them, and then slots of another node: so a node sees full
// requests, few of them at once, and pauses between. What is due goes to its node in rounds, which
// take along what will be due soon while they are small. While the node keeps up a round is one
// small call, for others wait for the node, too; but all holds of a slot go in one, unless they are
// far more than usual, for each call costs the node, and this process, more than a few renewals.
// Nodes are asked in parallel, those of a class of TTLs apart (for they cannot wait equally long),
// and one that does not answer holds up nobody but itself. One that answers, but lags behind, gets
// larger rounds, the more it lags, each in one call, and several at once; Stats tells by how much.
//
// Each renewal of a hold has one of three outcomes. Renewed: it is safe for its TTL again, counted
// from before the request was sent. Ended: the store says that it is not ours any more. Unknown:
// nothing was heard; it is asked again soon, until the moment the lease could be over at the store
// (Until). Then it is lost, even if the store answers a moment later.
//
// A hold with a lease (Plan.Lease) is looked at and not renewed. It is believed in until its Until,
// and over when the store says so, which it is asked often from then on: an answer that makes the
// lease last may be on its way, and its end is nobody's loss.
//
// A Hold's [Keeper] is told of its end once at most, from a goroutine of the Watchdog, with no lock
// held. It must not block: the others wait behind it. After Remove it may still be told of an end
// that was found before.
//
// All methods are safe for concurrent use. Time is the monotonic clock of this process; it is never
// compared with another machine's. That clock may stand still while the machine is suspended, so a
// jump of the wall clock against it counts as time that has passed.
//
// Not promised: that nobody else got in before the loss is told, when this process itself was not
// run for longer than the margin (see [Until]); only the token protects from that.
package renewal
