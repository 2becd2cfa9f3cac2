// Package script is the boundary between the lock service and Redis. It has the Lua scripts, the
// names of the keys and channels of a lock, and the record that Redis keeps of a hold.
//
//	script.go    the scripts: their texts and how go-redis runs them
//	mode.go      plain, FAIR, READ, WRITE and permit: which scripts and keys each one has
//	shape.go     what the replies of each script look like
//	errors.go    what an error of a call means: did Redis run the script or not?
//	names.go     keys, channels and slots
//	record.go    the record of a hold
//	terms.go     the options of a hold, as a record has them
//
// Everything in it is a value or immutable, and so safe for concurrent use.
package script
