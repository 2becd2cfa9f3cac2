// Nemesis is a program that tries to make two clients believe that they hold the same lock. It runs
// a Redis Cluster with replicas and two Leashes, lets dozens of clients take, hold and release
// locks in every way there is, and meanwhile breaks whatever can be broken: connections, the
// network, Redis and its clocks, the Leashes, the clients. What the clients saw becomes histories
// of operations, which Porcupine (https://github.com/anishathalye/porcupine) checks against models
// of a mutex, a re-entrant one, a read-write lock, a semaphore, of tokens that rise, of a counter
// (SEM.TAKE) and of a latch.
//
// # Beliefs
//
// A client believes that it holds a lock from the reply with the token until the first of: it sends
// the release; it sees its connection end; a reply says LOCKLOST; its LEASE or MAXHOLD is over,
// counted from when it sent ACQUIRE, or its IDLE since it last sent anything; nothing has proved
// the hold for half a TTL, or for as long as LOCK.TTL said. A belief is two operations: the grant,
// which happened between the sending of ACQUIRE and its reply, and the end, which happened at some
// time after the belief was over. If two beliefs overlap, no order of these operations fits the
// model.
//
// Who repeats an ACQUIRE by its ID does not believe in what is granted: the first copy may come to
// Leash after the second, and takes the hold along to the connection that is gone. Leash cannot
// tell the two apart.
//
// What Leash does not promise is excepted and counted, but only for as long as it may take to tell:
// a master that dies forgets what no replica has confirmed, one that is flushed forgets everything,
// LOCK.BREAK ends locks though nobody confirms that the holder was told, or the word cannot come to
// it, and a clock of Redis that is stepped forward ends locks before their time (except.go). A sign
// of life is good for half a TTL only while Redis answers Leash, and while this machine runs.
//
// # What else must hold
//
// An auditor reads the locks in Redis itself, past Leash: what was released never comes back,
// nothing stays for longer than its lease after its holder's end, and no lock is free while
// somebody waits for it; time in which something was broken does not count, so there is a calm
// after each storm, nor the grace of a new master; and some wait without end. What LOCK.TTL and
// AWAITLOSS say is compared with what becomes of the hold. A lock may be lost for silence only
// where something was broken: not at one master because another is silent. When all clients have
// gone every lock can be had, and the Leashes use as little as before.
//
// Counters and latches have no holders: what is given and taken must add up. A request that was not
// answered was done once or not at all, at some time, and nobody can ask; so there is soon another
// counter, and no history has more than a few such requests.
//
// Clients also end each other's waits and connections (CLIENT UNBLOCK, CLIENT KILL): whether a
// grant or the end comes first, the client and Redis must agree. They leave by closing, QUIT,
// RESET, RST or kill -9.
//
// # The check is checked
//
// With --sabotage Leash is built with a script, or code, that is deliberately broken, and the run
// fails when that is not found out.
//
// # Reports
//
// What is wrong is told with its story, so that it can be judged from the output alone: the holds
// beside it, with what their clients sent and heard and until when they might believe, the faults,
// each LOCK.BREAK, what Redis had of the lock, and what the Leashes logged.
//
// # Not broken
//
// The clocks of the Leashes' hosts, and how fast a clock runs. Hosts that vanish without a word:
// the kernel behind a proxy answers keepalives, so a client that is cut off here holds its lock
// until the proxy says that it is gone.
//
// Usage: go run ./internal/nemesis [flags], which --help lists, with the faults.
package main
