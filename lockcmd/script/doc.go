// Package script is the boundary between the lock service and Redis. It has the Lua scripts, the
// names of the keys and channels of a lock, and the record that Redis keeps of a hold.
//
//	client.go    the Client, which runs scripts on one Redis
//	call.go      one call, repeated until Redis answers or the time is over (R7)
//	path.go      the ways of a call to Redis that do not go by go-redis's client
//	refusal.go   why nodes refused calls recently
//	script.go    the scripts: their texts, how go-redis runs them, what their replies look like
//	source.go    leaves out functions that a script does not call
//	mode.go      plain, FAIR, READ, WRITE and permit: which scripts and keys each one has
//	errors.go    what an error of a call means: did Redis run the script? which right is missing?
//	names.go     keys, channels and slots
//	record.go    the record of a hold and the options in it
//
// These have the functions with typed arguments and results:
//
//	acquire.go       acquire a lock
//	handover.go      release it and grant it to a waiter
//	release.go       release it, also for another carrier
//	move.go          give a hold another carrier
//	renew.go         renew or check one hold
//	renew_batch.go   ... many holds
//	renew_keys.go    ... with one key a call, in a slot migration
//	hold.go          extend and break a hold; tombstones
//	inspect.go       read a lock, and list locks
//	permit.go        permits of a semaphore
//	counter.go       counters, latches and the totals of semaphores
//	restore.go       write holds back on a new master
//	undo.go          take an acquire or a waiter back
//	probe.go         which master is it, and since when?
//
// # Paths to Redis
//
// Calls reach Redis in four ways:
//
//   - A call of one script goes by Links.Script, on a link that many callers share. It is the usual
//     way, because it is fast.
//   - Renewals go by Links.Scripts, many scripts in one write (renew_batch.go). They use other
//     links than calls, so that they do not wait behind them.
//   - Go-redis takes the call if there is no link, if the slot has moved, or if the node does not
//     know the script. It dials, follows redirects and sends the text of the script.
//   - A call that needs replicas has a connection of go-redis to itself, because WAIT blocks it.
//
// A call goes by a link only once. After an unknown outcome, go-redis takes the next attempt.
//
// # Concurrency
//
// A Client is safe for concurrent use once its fields are set. A call belongs to one goroutine.
// Modes, names and records are values or immutable. No mutex is held while a script runs.
package script
