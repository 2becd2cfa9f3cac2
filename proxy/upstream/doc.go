// Package upstream finds the nodes of Redis and follows their changes: it asks Redis or sentinels
// for the topology, and keeps the newest topology.Snapshot. It also has the clients for Leash's own
// commands.
//
// An Upstream is a Redis Cluster, a single Redis, or one that sentinels name. Its Dialer knows how
// to connect, and its Nodes how commands go to a node. A session asks the snapshot for the node of
// a slot, and the node for its link in the session's lane.
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
