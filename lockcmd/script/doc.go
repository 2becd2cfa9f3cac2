// Package script is the boundary between the lock service and Redis. It has the Lua scripts, the
// names of the keys and channels of a lock, and the record that Redis keeps of a hold. Package
// transport below it brings scripts to Redis.
//
//	client.go    the Client, and how locks and holds are named
//	mode.go      plain, FAIR, READ, WRITE and permit: their scripts and keys; all scripts
//	names.go     keys and channels
//	record.go    the record of a hold and the options in it
//
// These have the functions with typed arguments and results:
//
//	acquire.go   acquire a lock, take an acquire or a waiter back
//	release.go   release it, also for another carrier, or grant it to a waiter
//	move.go      give a hold another carrier
//	hold.go      extend and break a hold; tombstones
//	renew.go     renew or check many holds
//	per_key.go   renew and release with one key a call, in a slot migration
//	inspect.go   read a lock, and list locks
//	permit.go    permits of a semaphore
//	counter.go   counters, latches and the totals of semaphores
//	restore.go   write holds back on a new master; which master is it, and since when?
//
// A Client is safe for concurrent use once its fields are set. Modes, names and records are values
// or immutable. No mutex is held while a script runs.
package script
