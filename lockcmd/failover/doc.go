// Package failover knows the masters and their grace periods.
//
//	masters.go     which master serves a slot, and how long it grants nothing
//	probe.go       look at the masters once a second, and when a request needs to know
//	duration.go    how long a grace period is
//	rehearsal.go   grace periods without a failover, for tests
//
// The package knows no holds. It marks those that a master has in our state by their renewal.Hold.
//
// The grace period protects locks that a new master may have forgotten.
//
// Redis replicates asynchronously. A replica that becomes the master lacks the last writes of the
// old one. A server that restarts may lack everything. Locks that an owner still relies on look
// free there. So from the first probe of such a master on, it grants nothing until every old lease
// must be over. Owners go on with their holds. Holds that the master lacks are written back
// (lockcmd/restore). Holds that it has in an older state are corrected.
//
// # Why it is safe
//
//  1. A belief that comes from the old master ends a TTL after the last request was sent that the
//     old master answered (R25). So it ends at the latest a TTL after the old master stopped.
//  2. The grace period begins at the first probe of the new master, which is after its promotion.
//     It lasts for a TTL plus the time that an old master may serve on beside the new one.
//  3. When it is over, each such belief is over. Or its hold is on the new master, where it was
//     renewed or written back.
//  4. A script grants only on a master that this Leash has seen after its grace period. The script
//     compares the replication id itself, in Redis. So no Leash has to notice a failover in time. A
//     Leash that notices it late only loses holds.
//
// Package internal/failover searches a model of this.
//
// # Which master is new
//
// A promoted replica keeps its run_id. A server that restarts has a new one. The replication id is
// new in both cases. It is also new when the first replica joins a master, or an hour after the
// last one has left, but then there is no second replication id.
//
//   - Without a second id, a server has been master since its process began. Redis tells when.
//   - With a second id, it was promoted, and Redis does not tell when. The first probe leaves a
//     mark with the time in the server itself.
//   - If either time lies in the future of the server's clock, that clock went back. Then the time
//     of the first probe counts.
//
// No grace period begins with a first lock on an empty Redis, with a connection that breaks, or
// with a slot that moves. A slot that moves away from a master in its grace period takes the rest
// of that period along, if this Leash has seen it there.
//
// # What it needs
//
//   - No renewed TTL is longer than the grace period less the time that an old master may serve on.
//     Longer leases are written back if their connection lives and its Leash reaches the new master
//     within the grace period. Otherwise they are not covered.
//   - An old master that is cut off stops within that time, and before the leases that it has are
//     over. Otherwise a hold may be renewed at the new master only, run out at the old one, and be
//     granted there. Its last renewal at the old master is at most a third of the TTL old, so two
//     thirds are left.
//   - A master of Redis Cluster stops after cluster-node-timeout and up to half of that more. A
//     single Redis with sentinels stops after min-replicas-max-lag if min-replicas-to-write is 1. A
//     master that was frozen and wakes up may grant until it knows of the new one.
//   - For holders to keep their locks, the promotion must fit into those two thirds as well.
//     Otherwise they are told of a loss (silence), which is safe.
//   - A Leash that the new master has answered asks the old one no more. What it does there
//     afterwards is not corrected.
//   - Everybody who grants obeys the grace period. Redisson's clients do not, and a Leash without
//     the flag does not.
//   - The servers' clocks do not step by a lease (R2).
//   - A replica that never had a copy is not promoted.
//
// # Older states
//
// The Leash of the carrier corrects each hold once, as soon as it has met the new master, within
// the grace period. It corrects the count, the time left, and the carrier. The record counts how
// often the hold was moved, and the later carrier has it. The other one is told that it was moved.
//
// Requests that reach the new master before that are made good. A renewal that finds less time left
// of a lease than its owner was told counts only after the master was probed since. So does a
// release that finds another count than this Leash knows.
//
// # What it does not cover
//
//   - A release through another Leash, or a move on the new master, before the carrier's Leash has
//     met that master. It acts on the state that it finds. If the second of two counts was
//     forgotten, a release of one count may end the hold. If a move was forgotten and another was
//     made on the new master, the connection with more moves has the hold.
//   - A release by another connection that was forgotten. The hold is there again. It is renewed if
//     its carrier's Leash does not know of the release either.
//   - A request that writes a hold back and arrives late, after the hold was released. Nobody has
//     the hold then. It expires by itself, at most a TTL after the request has arrived.
//   - Tombstones and answers under an ID that were forgotten. So a hold that was broken may be
//     written back, if its carrier's Leash was not told.
//
// Plain counters and latches have no leases and no holders, so they need no grace period.
//
// # Concurrency
//
// Masters is safe for concurrent use. One mutex guards what it knows. It is held for a few lines
// and never during a call of Redis, a log line or a call of the watchdog. One goroutine at a time
// probes a master; others wait for its answer. A Master is a copy, which its user may keep.
package failover
