// Package faultproxy is a TCP proxy for tests. It stands in front of a RESP server and fails on
// demand.
//
// A [Proxy] listens, forwards, and takes orders:
//
//	Proxy.DropBefore             cuts the connection before a command: it was not executed
//	Proxy.DropAfter              cuts it after a command was executed: the reply is lost
//	Proxy.HoldBefore             keeps a request back until told
//	Proxy.HoldAfter              keeps a reply back until told
//	Proxy.Freeze                 stops all bytes; connections stay
//	Proxy.FreezeWay              stops the bytes of one direction
//	Proxy.Cut                    ends connections
//	Proxy.Sever                  leaves connections half-open
//	Proxy.Replace                gives another reply
//	Proxy.Corrupt                spoils a share of all replies
//	Proxy.Refuse                 accepts no connections
//	Proxy.Delay, Proxy.Throttle  make the network slower and narrower
//
// A [Fault] is one order. A test waits with it until the fault has happened.
//
// The proxy parses both directions, to know which reply belongs to which command. A command is
// forwarded when it is complete. Replies are forwarded as they come. Before a connection is cut at
// a command, everything earlier was forwarded and its replies were delivered. Nothing later is
// forwarded. So what was executed, and what the client knows, does not depend on timing.
//
// Some connections are not followed any more, and no command of theirs matches from then on: after
// MONITOR, after CLIENT REPLY OFF or SKIP, and after a protocol error. A connection that sends
// PSYNC or SYNC is a replica's: its master announces the proxy's port. No fault touches it.
//
// All methods are safe for concurrent use. The kernel goes on as usual: a frozen connection still
// acknowledges bytes and keepalives. A connection to a dead target is accepted and then closed.
package faultproxy
