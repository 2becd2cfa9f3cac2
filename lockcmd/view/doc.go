// Package view shows what a Leash holds: to LEASH HOLDS, to the console, to metrics, to the log of
// losses and to the audit log.
//
//	viewer.go    what is shown, and of what
//	hold.go      a hold
//	waiter.go    a command that waits
//	search.go    lists of holds: which ones, and in which order
//	lock.go      a lock with its holders and waiters
//	recorder.go  counts what happens, and tells observers
//	change.go    what observers are told
//	stats.go     figures
//
// A [Viewer] reads. A [Recorder] is told of grants, losses and ends by those who make them.
//
// # Concurrency
//
// Everything is safe for concurrent use and has no mutex. Only [Viewer.ViewLock] and [Viewer.Locks]
// ask Redis, and block until it answers. The others return at once. A search reads the holds in
// parts, so that no command waits for it. Observers are called by the goroutine that makes a
// change, without a mutex held, and must not block. That goroutine logs losses too.
package view
