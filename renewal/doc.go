// Package renewal is the watchdog: it keeps holds alive in a store until they are taken away from it, and says in time when
// that cannot be done any more.
//
// A [Watchdog] is given [Hold]s, and asks a [Store] to renew them. Holds of one slot with one TTL form a group, and a group
// has the due times, not a hold: a third of the TTL apart, spread over that third in steps by the slot's number, so that the store's
// nodes see an even stream of few, full requests. Groups that are due together go to their nodes in parallel, in one call
// a node (and class of TTLs, for they cannot wait equally long), and a node that does not answer holds up nobody but itself. One
// that answers, but lags behind, gets several calls at once; Stats.Lag tells by how much.
//
// Each renewal of a hold has one of three outcomes. Renewed: it is safe for its TTL again, counted from before the request was
// sent. Ended: the store says that it is not ours any more. Unknown: nothing was heard; it is asked again soon, until the
// moment the lease could be over at the store (Until). Then it is lost, even if the store answers a moment later.
//
// A Hold's [Keeper] is told of its end once at most, from a goroutine of the Watchdog, with no lock held. It must not block:
// the others wait behind it. After Remove it may still be told of an end that was found before.
//
// All methods are safe for concurrent use. Time is the monotonic clock of this process; it is never compared with another
// machine's. That clock may stand still while the machine is suspended, so a jump of the wall clock against it counts as
// time that has passed.
//
// Not promised: that nobody else got in before the loss is told, when this process itself was not run for longer than the
// margin (see [Until]); only the token protects from that.
package renewal
