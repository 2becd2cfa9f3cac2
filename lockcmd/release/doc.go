// Package release ends holds and gives counts of them back. It answers with codes of the package
// script and with errors; package lockcmd makes the replies.
//
//	own_hold.go    releases of holds of this Leash, one or many
//	request.go     the request: states of its hold, repetitions, unknown outcomes (R26)
//	new_master.go  a release on a new master, which may have an older state of the hold
//	remote.go      releases of holds that another Leash carries
//	break.go       LOCK.BREAK, which ends the holds of all Leashes
//	broken.go      LOCK.BREAK of a hold of this Leash
//	tombstone.go   how a hold ended, for those on other Leashes who ask
//	releaser.go    what all releases of a Leash share
//
// A release grants the lock to a waiter of this Leash in the same script, if there is one (R21).
// That is what [Waiters] are for.
//
// # Unknown outcomes
//
// A release without an answer goes on in the background until Redis answers, or until the hold must
// be over. Its caller gets a transport.ErrUnknown. After a transport.ErrRefused, nothing was done
// and nothing goes on.
//
// # Concurrency
//
// A Releaser is safe for concurrent use and has no mutex. Its functions block on the caller's
// goroutine until Redis answers, at most until the time that they are given, unless they say
// otherwise. What goes on afterwards runs as one of its Tasks. During a release, the requests of
// the hold are locked, so there is one request about a hold at a time. A task that goes on with a
// release unlocks them at its end.
package release
