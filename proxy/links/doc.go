// Package links has the nodes of Redis and the connections over which commands go to them.
//
// # Types
//
//	Nodes    all nodes, and the sessions of each lane
//	Node     one Redis server, and whether it is alive
//	Link     the one connection to a node that all sessions of a lane share, or one session alone
//	Request  one command on a link; its Sink takes the reply
//
// The caller asks a Node for its Link in a lane and submits a Request. The reply's bytes come to
// the Sink of the Request. Node.Pin gives a session a link of its own (pin.go), and Node.Listen
// gives one for subscriptions (listen.go). Which node owns a key is known above: Hooks tell the
// owner of the topology what a link finds out.
//
// # Lost connections
//
// A request that was written is never repeated here. A request that was not written goes out on the
// next connection. Redirects are replies like any other: the caller follows them.
//
// # Concurrency
//
// Everything is safe for concurrent use unless it says otherwise. All goroutines belong to the
// Nodes. They have ended when Nodes.End returns. Mutexes are locked in this order: Node, Link,
// Nodes. None is held across I/O.
package links
