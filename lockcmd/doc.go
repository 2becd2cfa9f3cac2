// Package lockcmd answers LOCK.*, SEM.* and LATCH.*: their arguments, what they do in Redis, and
// their replies.
//
// A [Service] is one Leash's locks. Each client connection that uses them gets a [Carrier], on
// which the life of its holds hangs; [Carrier.Do] runs one command and [Carrier.End] settles what
// the connection leaves behind. The connection itself is known only as a [Host].
//
// # In Redis
//
// A plain lock lies where Redisson's RLock lies: a hash named as the lock, the owner's id a field
// with the count of its acquires, the key's TTL the lease. One more field, "leash", is the hold's
// record (record.go has its bytes). All changes are made by the scripts in scripts/, one round trip
// each: an acquire nobody disputes is one, its release is one.
//
// A read-write lock lies where Redisson's RReadWriteLock lies; the records of its holds are in a
// hash beside it, {name}:leash. Such a lock lasts as long as any of its holds, and a hold as long
// as Redisson would say (scripts/rw.lua): what is over is nobody's, though it is there.
//
// Semaphores and latches lie where Redisson's do. A permit is a hold in a mode of its own
// (permit.go); a plain counter (counter.go) and a latch (latch.go) have no owners, so nothing is
// held and nothing can be undone.
//
// # Outcomes
//
// A script's outcome may be unknown: sent, and no reply. Every request has a number, larger than
// its carrier's last, so it can be repeated until its answer is known (call.go); what cannot be
// known in time is undone (undo.go) and told as LOCKTIMEOUT. A hold that may have ended is treated
// as lost by its holder and as held by everybody else.
//
// # Waiting
//
// Waiters of one key stand in a queue of this Leash (queue.go), and only its head looks whether the
// lock is free: when it is woken by a message, when the holder's lease ran out, and every second.
// Who waits FAIR stands in a queue in Redis instead and looks for itself (fair.go). Those who wait
// for permits or latches, which are not handed over, stand in lines of their own (line.go).
//
// # Several keys
//
// A MACQUIRE is an assembly of holds, each an ordinary one that nobody knows of until there are
// enough. Without QUORUM it takes them in their order, waiting for one with those before it in
// hand; with QUORUM it tries all in rounds (round.go, quorum.go), with nothing in hand between
// them, and its holds stay a bundle (bundle.go): one is missed only when too few are left.
//
// # What a client is told
//
// A loss is told by the end of the connection or by an answer (loss.go), by LOCK.AWAITLOSS to who
// waits for it, and by pushes to who has asked for them (notify.go): those also say who got a lock
// instead (heir.go) and that somebody waits for one, on whatever Leash (wanting.go). What a client
// has agreed to ends a hold as a loss does: the time of MAXHOLD (evict.go; limits.go when its
// connection has ended before), or its own silence (idle.go). Who waits on another Leash finds how
// a hold has ended in a tombstone (vigil.go), also if it was heard of too late (lately.go).
//
// # Concurrency
//
// Everything here is safe for concurrent use, but a Carrier runs one command at a time. Locks are
// taken in the order Carrier.mu, queues.mu, lines.mu, Service.mu, the watchdog's; none is held
// across a script, a log line or a call of a Host. Those of lately and limits are taken last.
//
// # Not promised
//
// A failover of Redis can forget a lock, which a grace (grace.go) can make up for, and so can an
// evicting maxmemory-policy; what lies in Redis can be deleted by anybody. The token orders holds
// at the resource where that matters.
package lockcmd
