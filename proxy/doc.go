// Package proxy serves Redis clients. It reads their commands. It relays each to Redis, gives it to
// package lockcmd, or answers it itself. docs/design.md shows the path of a command step by step.
//
// # Types
//
// A [Server] accepts clients through package client and has a session for each. The session reads
// commands by Redis's own grammar (package resp) and looks each up in the table of package command.
// A command that is relayed becomes a call with one part, or with several if its keys lie on
// several nodes. A part goes to a link (package links). The reply goes to the client as the
// bytes that Redis sent, in the order of the commands.
//
// # Files
//
//	session.go, handlers.go               a session: dispatch, the function of each command
//	package command                       the command table
//	package route                         relaying: which node, which link; the checks of rights
//	package call, session_calls.go        calls in flight: order of the replies, redirects
//	package merge                         one reply of several nodes' replies
//	packages masters, scripts, clients …  families of commands that need little of a session
//	input.go, package client              what comes from the client and goes to it
//	package blocking, transaction.go      commands that need a connection of their own
//	pushes.go                             pub/sub, client-side caching, MONITOR
//	access.go                             what a client may do; MULTI and other modes
//	package locks                         LOCK.*, SEM.*, LATCH.*: the way to package lockcmd
//	ending.go, drain.go, session_check.go how sessions end
//
// # Concurrency
//
// A session's loop runs on the goroutine of its connection. Replies arrive on the goroutines of the
// links. Large replies of several nodes are merged on a goroutine of their own. session.mu guards
// what these use. It is not held during I/O. No client can block a link: output that its socket
// does not take at once waits in the session.
//
// # Not promised
//
// Commands of one session for different nodes may run in another order than they were sent, as with
// any cluster client. Commands for one key run in the order in which they were sent.
package proxy
