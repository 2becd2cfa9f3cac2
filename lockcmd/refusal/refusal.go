// Package refusal has the errors that lock commands answer when they have no details. Clients
// branch on the first word. Where Redis has the same error, the words are Redis's.
package refusal

import "strings"

// Error is a refusal as an error. Its text is the reply to the client.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

// The refusals.
const (
	Syntax        = "ERR syntax error"
	NotInteger    = "ERR value is not an integer or out of range"
	BlockNumber   = "ERR timeout is not an integer or out of range"
	BlockNegative = "ERR timeout is negative"
	BlockRange    = "ERR timeout is out of range"
	Negative      = "ERR value is out of range, must be positive"
	LeaseAndTTL   = "ERR LEASE and TTL options at the same time are not compatible"
	Owner         = "ERR invalid OWNER: 1 to 128 printable characters without space, not mode, not leash..., " +
		"not ending in :write"
	ID            = "ERR invalid ID: 1 to 128 printable characters without space"
	Helper        = "ERR invalid key: Leash keeps the records of another lock in it"
	Slots         = "ERR invalid key: its helper keys would hash to another slot, check its { and }"
	Draining      = "ERR this Leash is shutting down and grants no locks"
	DrainingWatch = "ERR this Leash is shutting down and watches no locks"
	Count         = "ERR value is out of range, value must between 1 and 1000"
	Permit        = "ERR invalid permit: 32 hex digits"
	NoPermit      = "SEMNOTHELD there is no such permit"
	NotHeld       = "LOCKNOTHELD there is no such hold"
	TooMany       = "LOCKLIMIT too many commands wait on this Leash, see --max-waiters"
	IsRenewed     = "ERR this hold is renewed automatically, only a hold with LEASE can be extended"
	NoPushes      = "ERR LOCK.NOTIFY needs RESP3: send HELLO 3 first, or use LOCK.AWAITLOSS"
	Unblocked     = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
	Unknown       = "LOCKTIMEOUT Redis did not answer in time, the outcome is unknown"
	ReleaseLater  = "LOCKTIMEOUT Redis did not answer in time, Leash repeats the release until it does"
	AttachLater   = "LOCKTIMEOUT Redis did not answer in time, Leash repeats the attach until it does"
	ExtendUnknown = "LOCKTIMEOUT Redis did not answer in time, the lease may be extended or not"
	BreakUnknown  = "LOCKTIMEOUT Redis did not answer in time, the lock may be broken or not"
	NotAccepted   = "LOCKTIMEOUT Redis did not accept the request in time, nothing was done"
	Gone          = "LOCKTIMEOUT the connection has ended, Leash released the lock"
	Unanswered    = "LOCKTIMEOUT Redis did not answer in time, Leash undoes the request if Redis executed it"
	TooLate       = "LOCKTIMEOUT the lease expired before the answer of Redis arrived"
	Deadlock      = "LOCKDEADLOCK this connection holds the key under another owner and would wait for itself"
	Elsewhere     = "LOCKELSEWHERE this owner's hold belongs to another connection, " +
		"use LOCK.ATTACH to move it here"
	OtherMode = "LOCKKIND this owner holds the key in another mode and would wait for itself"
)

// Arity is the refusal of a wrong number of arguments.
func Arity(command string) string {
	return "ERR wrong number of arguments for '" + strings.ToLower(command) + "' command"
}

// Expire is the refusal of a time that is out of range.
func Expire(command string) string {
	return "ERR invalid expire time in '" + strings.ToLower(command) + "' command"
}

// Unsupported is the refusal of something that Leash lacks.
func Unsupported(what string) string { return "ERR " + what + " is not supported by leash yet" }
