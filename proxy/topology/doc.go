// Package topology says which node of Redis owns which slot. It reads what Redis and sentinels
// answer about their nodes.
//
// # Types
//
//	Layout    what Redis says, by address: slots, masters, replicas
//	Snapshot  the same with nodes in the place of addresses; it says who is master of a slot
//	Sentinel  what a sentinel says about its master
//
// Package upstream asks Redis, makes a Snapshot of the answer, and replaces it as a whole.
//
// # Concurrency
//
// No function does I/O, blocks, or keeps state. A Snapshot never changes, so any number of
// goroutines may use it.
package topology
