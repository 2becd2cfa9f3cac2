// Package restore keeps the holds of this Leash in Redis. It renews and extends them, reads why one
// is missing, writes back what a new master lacks, and moves a hold to another carrier.
//
//	renew.go       Redis for the watchdog: one script call a batch
//	extend.go      a lease gets another end
//	repair.go      a round of renewals corrects what a new master has in an older state
//	restore.go     one hold that a new master lacks is written back
//	tombstone.go   why a hold is missing, and what follows from that
//	move.go        a hold gets another carrier (R4)
//	restorer.go    find a hold that another Leash may be about to write back
//
// lockcmd/failover explains the grace period. Package hold has what this Leash knows of a hold, and
// package script how Redis is asked.
//
// # Concurrency
//
// A Restorer is safe for concurrent use and has no mutex and no goroutine. Its functions block on
// the caller's goroutine, at most until the time that they are given. Functions about a hold whose
// requests are to be locked say so. A Move is used by one goroutine at a time. It locks the
// requests of the hold that moves away, if that is on this Leash, until Unlock.
package restore
