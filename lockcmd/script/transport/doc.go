// Package transport runs Lua scripts on Redis: on the master of a slot, and again until Redis
// answers or the time is over (R7). It knows no locks.
//
//	client.go    the Client, which runs scripts on one Redis
//	call.go      one call, repeated until Redis answers or the time is over
//	links.go     calls on Leash's own links
//	replicas.go  calls that need replicas
//	refusal.go   why nodes refused calls recently
//	errors.go    what an error of a call means: did Redis run the script? which right is missing?
//	reply.go     what Redis answered
//	script.go    a script, and how go-redis runs it
//	source.go    leaves out functions that a script does not call
//
// # Paths to Redis
//
// Calls reach Redis in four ways:
//
//   - A call of one script goes by Links.Script, on a link that many callers share. It is the usual
//     way, because it is fast.
//   - Renewals go by Links.Scripts, many scripts in one write. They use other links than calls, so
//     that they do not wait behind them.
//   - Go-redis takes the call if there is no link, if the slot has moved, or if the node does not
//     know the script. It dials, follows redirects and sends the text of the script.
//   - A call that needs replicas has a connection of go-redis to itself, because WAIT blocks it.
//
// A call goes by a link only once. After an unknown outcome, go-redis takes the next attempt.
//
// # Concurrency
//
// A Client is safe for concurrent use once its fields are set. A call belongs to one goroutine.
// Scripts are immutable. No mutex is held while a script runs.
package transport
