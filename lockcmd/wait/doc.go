// Package wait lets commands wait: for locks, READ and WRITE, FAIR, permits, counters, latches, and
// the keys of a MACQUIRE with QUORUM.
//
// # Types
//
// A [Machine] has all waiters of one Leash. [Machine.Wait] is the wait of one command. It joins a
// queue and attempts until it gets what it asks for. What differs between the kinds is a [Request].
// The package knows nothing of a [Result] but its [Outcome].
//
//	Queues         who waits for what, in order of arrival              queue.go
//	Waiter         one waiting command                                  waiter.go
//	Queues.Claim   a release grants the lock to the head of a queue     claim.go
//	loop           what may wake a waiter, and when its wait is over    loop.go
//	Entry          the turns of the Leashes (R21)                       turns.go
//	FairPlace      the place of a FAIR waiter in a queue in Redis        fair.go
//	Command        CLIENT UNBLOCK ends the wait of a command            command.go
//	wantedNotifier holders learn that somebody waits (LOCK.NOTIFY)      wanted.go
//
// # When a waiter attempts
//
// Only the head of a queue attempts (R18), and not while a release has claimed it. It attempts
//
//   - when no message on its channel can be missed any more (R17),
//   - after a message on its channel, and when this Leash has the turn,
//   - when the waiter before it has left with nothing or leaves room for it,
//   - when the holder's lease is over, and about once an interval, since messages get lost,
//   - a little after the end of a reservation for another Leash, which may be dead.
//
// All of them are one wake-up: any number of reasons cause one attempt.
//
// # Concurrency
//
// A Machine, its Queues and a Command are safe for concurrent use. A wait belongs to the goroutine
// that called Wait. That goroutine alone changes a waiter from queued to trying and back. A release
// changes it from queued to claimed, and from claimed to granted or back to queued. Both happen
// under the mutex of Queues, which decides all races: between a grant and the end of BLOCK, between
// a hand-over and an attempt, and between a waiter that leaves and the next one.
//
// Requests are called with that mutex held, except Attempt. So PassesOn, TakesFrom and Outcome do
// not block and take no locks. No mutex is held during an attempt or a call of Redis, Tasks,
// Channels or Holders. The mutex of a Command is held while OnUnblock's function is called.
//
// # Not promised
//
// A grant may come at the same moment as the end of the client. The caller finds out by the same
// ctx, and gives the grant back.
package wait
