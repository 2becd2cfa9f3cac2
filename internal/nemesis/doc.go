// Nemesis tries to make two clients believe that they hold the same lock.
//
//	go run ./internal/nemesis [flags]    --help lists the flags and the faults
//
// It runs a Redis Cluster with replicas and two Leashes. Dozens of clients acquire, hold and
// release locks in all ways that Leash offers. Nemesis breaks connections, the network,
// Redis and its clocks, the Leashes and the clients. It records what the clients saw as histories
// of operations. Porcupine (https://github.com/anishathalye/porcupine) checks them against models
// of a mutex, a re-entrant mutex, a read-write lock, a semaphore, rising tokens, a counter and a
// latch.
//
// # Beliefs
//
// A client believes that it holds a lock from the reply with the token on, until the first of
// these:
//
//   - It sends the release.
//   - It sees its connection end, or a reply says LOCKLOST.
//   - Its LEASE or MAXHOLD is over, counted from when it sent ACQUIRE.
//   - Its IDLE is over, counted from when it last sent anything.
//   - Nothing has proved the hold for half a TTL, or for as long as LOCK.TTL said.
//
// A belief is two operations. The grant happened between the ACQUIRE and its reply. The end
// happened at some time after the belief was over. If two beliefs overlap, no order of these
// operations fits the model.
//
// A client that repeats an ACQUIRE by its ID does not believe in the grant. The first copy may
// reach Leash after the second, and moves the hold to the connection that is gone. Leash cannot
// tell the two copies apart.
//
// # Exceptions
//
// The check excepts what Leash does not promise, and counts it. Each exception is limited to the
// time that it may last (history/exceptions.go):
//
//   - A master that dies forgets what no replica has confirmed.
//   - A master that is flushed forgets everything.
//   - LOCK.BREAK may end a lock though its holder was not told.
//   - A clock of Redis that is stepped forward ends locks early.
//   - A reply proves a hold for half a TTL only while Redis answers Leash and this machine runs.
//
// # What else must hold
//
// An auditor reads the locks from Redis directly, not through Leash:
//
//   - A released lock never comes back.
//   - No lock stays longer than its lease after its hold has ended.
//   - No lock is free for long while a client waits for it.
//
// Time in which something was broken does not count for these, nor does the grace period of a new
// master. So there is a time without faults after each fault. Some clients wait without a limit.
//
// There are more checks:
//
//   - What LOCK.TTL and LOCK.AWAITLOSS say is compared with what becomes of the hold.
//   - A lock may be lost for silence only at a master where something was broken.
//   - When all clients are gone, every lock can be acquired. The Leashes then use as little as
//     before.
//   - Counters and latches have no holders: what is given and taken must add up. A request without
//     a reply was done once or not at all. So a history may contain only a few such requests.
//   - Clients end each other's waits and connections (CLIENT UNBLOCK, CLIENT KILL). The client and
//     Redis must agree whether a grant or the end came first.
//
// Clients leave by closing, QUIT, RESET, RST or kill -9.
//
// # Tests of the check
//
// With --sabotage, Leash is built with a script or with code that is broken on purpose. The run
// fails if the check does not find the error.
//
// # Reports
//
// The report of an error contains what is needed to judge it: the holds of the same time, what
// their clients sent and received, until when the clients might believe, the faults, each
// LOCK.BREAK, what Redis had of the lock, and what the Leashes logged.
//
// # Not broken
//
// Nemesis does not change the clocks of the Leashes' hosts, nor the speed of any clock. Hosts do
// not vanish without a sign, because the kernel behind a proxy answers keepalives. A client that is
// cut off here keeps its lock until the proxy ends the connection.
package main
