// Package upstream joins what Leash knows of Redis: which node owns which slot, the nodes with
// their links, and the clients for Leash's own commands.
//
// # Types
//
//	Upstream   all of it: a Redis Cluster, a single Redis, or one that sentinels name
//	Topology   which node owns which slot; a snapshot that never changes
//
// How to connect is known to package dial, and how commands go to a node to package links. Their
// methods are the Upstream's own too. A session asks the Topology for the node of a slot, and the
// node for its link in the session's lane.
//
// # Redirects
//
// The caller follows redirects, because only the caller knows what it may send again without a
// change in the order of a session's commands. It reports a MOVED with Upstream.Moved.
//
// # Concurrency
//
// Everything is safe for concurrent use unless it says otherwise. All goroutines have ended when
// Run returns. Upstream.mu is never held across I/O.
package upstream
