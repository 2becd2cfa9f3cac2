// Package transport runs Lua scripts on Redis: on the master of a slot, and again until Redis
// answers or the time is over (R7). It knows no locks.
//
//	client.go    the Client, which runs scripts on one Redis
//	call.go      one call, repeated until Redis answers or the time is over
//	links.go     calls on Leash's own links
//	command.go   commands that are no lock scripts
//	replicas.go  calls that need replicas
//	refusal.go   why nodes refused calls recently
//	errors.go    what an error of a call means: did Redis run the script? which right is missing?
//	reply.go     what Redis answered
//	script.go    a script
//	source.go    leaves out functions that a script does not call
//
// # Paths to Redis
//
// All scripts go by Links, which are the proxy's own. Links.Script sends one script on a link that
// many callers share. Links.Scripts sends many renewals in one write, on another link, so that
// scripts do not wait behind them. Links.Alone is for WAIT, which blocks its connection. Links
// repeat nothing after an unknown outcome; only Ask does.
//
// Other commands go by the same links, see command.go.
//
// # Concurrency
//
// A Client is safe for concurrent use once its fields are set. A call belongs to one goroutine.
// Scripts are immutable. No mutex is held while a script runs.
package transport
