// Package transaction is MULTI, EXEC and WATCH of one session
// (https://redis.io/docs/latest/develop/interact/transactions/).
//
// A Transaction exists from MULTI or WATCH on, until it is executed or discarded (transaction.go).
// It has a connection of its own, and goes to the node of its slot (transmit.go). EXEC's reply goes
// to the client as it arrives (exec.go). The package knows its session by the interface Session.
package transaction
