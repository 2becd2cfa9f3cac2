// Package client accepts clients and has their sockets. It knows nothing of Redis's commands.
//
// A [Listener] makes a [Conn] for each client and asks Config.Open for the [Session] that serves
// it. A Conn reads the header of a balancer, writes without blocking, and notices a peer that has
// vanished. It also speaks TLS: it encrypts into a buffer, so that its writes do not block either.
// An [Output] keeps what waits to be written to a Conn. A [Watcher] notices that the client
// disconnects while its session does not read. Before Leash knows its upstream, [Refuse] answers
// clients with an error.
package client
