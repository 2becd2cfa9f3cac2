// Package redistest runs real Redis servers and clusters for tests and benchmarks.
//
// [Launch] starts one server, [LaunchCluster] a cluster and [LaunchSentinel] a master with replicas
// and sentinels; all return something to Close. [Start], [StartCluster] and [StartSentinel] do the
// same for a test: they fail it when Redis cannot be started, never skip it, and close at its end.
// [Client] speaks RESP over a bare socket and hands back replies as the bytes that came.
//
// Every server is a process of its own in a temporary directory of its own, without persistence,
// bound to 127.0.0.1, and if wanted with a wall clock of its own, which can be stepped ([Clock]).
// None outlives the test: on Linux the kernel kills it when the process that started it dies. Ports
// lie in 10000-19999, so that the port of the cluster bus (10000 higher) is below 30000 and neither
// can be taken by the local end of some outgoing connection.
//
// Servers, clusters and nodes are safe for concurrent use; a Client is not.
//
// The kit promises nothing about time: a cluster's failover, say, takes as long as Redis takes.
// Methods that wait poll for what they wait for and return an error that says what was missing.
package redistest
