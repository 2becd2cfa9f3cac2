// Nemesis is a program that tries to make two clients believe that they hold the same lock. It runs a Redis Cluster with
// replicas and two Leashes, lets dozens of clients take, hold and release locks in every mode, and meanwhile breaks whatever
// can be broken: connections, the network, Redis, the Leashes. What the clients saw becomes histories of operations, which
// Porcupine (https://github.com/anishathalye/porcupine) checks against models of locks.
//
// # Beliefs
//
// A client believes that it holds a lock from the reply with the token until the first of: it sends the release; it sees its
// connection end; a reply says LOCKLOST; its LEASE is over, counted from when it sent ACQUIRE; nothing has proved the hold for
// half a TTL. A belief is two operations: the grant, which happened between the sending of ACQUIRE and its reply, and the end,
// which happened at some time after the belief was over. If two beliefs overlap, no order of these operations fits the model.
//
// What Leash does not promise is excepted and counted: a master that dies, or is flushed, forgets its locks, and LOCK.BREAK ends
// them though nobody confirms that the holder was told.
//
// Usage: go run ./internal/nemesis [--for 3m] [--seed n] [--clients n] [--kinds lock,fair,rw,sem] [--forget] [--sabotage]
package main
