// Package hold has the holds of one Leash: what this Leash knows of each, what happens to it, and
// who is told. It asks Redis nothing.
//
// # Types
//
// A [Registry] has all holds of a Leash. Each connection that uses locks has a [Carrier], because a
// hold depends on a connection, which is known only as [Host] and [Silence]. [New] makes a [Hold]
// of a grant, and [Carrier.Attach] makes it one of the carrier's. After that, events change it.
//
//	states, events, effects   the table of all transitions                  state.go
//	Change                    an event applied, and what follows from it    change.go
//	Hold                      what is known of a hold                       hold.go
//	Carrier                   the holds of a connection, and its end        carrier.go
//	Registry, index           finds holds by key                            registry.go, index.go
//	Selector                  which hold a command is about                 selector.go
//	LockRequests              one request about a hold at a time            request_lock.go
//	SafeUntil, LeaseOver      how long a hold is safe                       validity.go
//	Evict                     MAXHOLD and IDLE                              limits.go
//	TakeUnreportedLoss        losses that a client must be told of          loss.go
//	Group                     the holds of a MACQUIRE                       group.go
//	WatchEnd                  waits for the end of a hold                   watch.go
//	ReportWanted              pushes to the client (LOCK.NOTIFY)            notices.go
//
// # What an event does
//
// An event changes the state of a hold under the mutex of its carrier, as the table says, or it is
// refused. What follows comes after that, without the mutex: first the owner is told of a loss
// (R27), then those who wait for the end, and then the [Service] does what needs Redis: it releases
// holds and writes tombstones.
//
// # Concurrency
//
// Everything is safe for concurrent use. The mutex of a carrier guards its list of holds and what
// may change about them. Names that end in Locked need it. The mutex of the Registry and that of
// the watchdog may be taken after it, and none before it. No mutex is held during a call of a
// Service or of Host.End and Host.Push. Functions named match are called with both mutexes held:
// they must not block, and must not call what takes a mutex.
//
// The request lock of a hold is no mutex. It may be held during requests to Redis.
package hold
