// Package redistest runs real Redis servers and clusters for tests and benchmarks.
//
//	Launch                              one server
//	LaunchCluster                       a cluster
//	LaunchSentinel                      a master with replicas and sentinels
//	Start, StartCluster, StartSentinel  the same for a test, which closes them at its end
//
// A test fails if Redis cannot be started. It is never skipped. A [Client] is a plain RESP
// connection. It returns replies as the bytes that came.
//
// Every server is a process in its own temporary directory, without persistence, on 127.0.0.1. It
// can have its own wall clock, which a test can step ([Clock]). On Linux, the kernel kills the
// server when the process that started it ends. Ports are in 10000–19999, so the port of the
// cluster bus (10000 higher) is below 30000. Outgoing connections use other ports.
//
// Servers, clusters and nodes are safe for concurrent use. A Client is not.
//
// The package gives no time limits of its own. A failover takes as long as Redis takes. Methods
// that wait poll, and return an error that says what was missing.
package redistest
