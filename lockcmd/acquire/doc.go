// Package acquire obtains holds: of locks, of permits, and of several locks at once. It answers
// with a typed [Result]. A refusal.Error in it is the reply; package lockcmd makes all other
// replies.
//
//	acquirer.go    what all carriers of a Leash share
//	carrier.go     a connection that asks for holds, and its wait
//	options.go     what is asked for
//	result.go      what came of it
//	request.go     what the requests for locks and for permits have in common
//	lock.go        Acquire: one lock, from the options to the hold
//	own_hold.go    what its owner has already
//	permits.go     AcquirePermits: permits of a semaphore
//	several.go     AcquireAll: several locks
//	quorum.go      the same with QUORUM
//	undo.go        a lock is taken back
//	move.go        MoveHere: a hold of another connection comes to this one
//	waiters.go     a release grants the lock to a waiter
//
// # Concurrency
//
// An [Acquirer] and [Waiters] are safe for concurrent use and have no mutex. A [Carrier] runs one
// command at a time, on the goroutine of the caller. AcquireAll attempts its keys on more
// goroutines, and waits for those that it needs. What goes on after a command runs as one of the
// Tasks.
//
// A request belongs to the command's goroutine. A release that hands a lock over reads it on
// another one, while the waiter is claimed. After the command, the task that undoes it owns it.
//
// If the carrier has a hold of the owner, its requests are locked during the acquire. A task that
// takes back a further acquire of the owner unlocks them when Redis has answered. The mutex of the
// pending moves is a leaf: no other mutex is taken with it.
package acquire
