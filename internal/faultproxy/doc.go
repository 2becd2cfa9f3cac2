// Package faultproxy is a TCP proxy for tests. It makes faults on demand between clients and a RESP
// server.
//
// A [Proxy] listens and forwards. Its methods make faults:
//
//	Proxy.DropBefore             cuts the connection before a command: it was not executed
//	Proxy.DropAfter              cuts it after a command was executed: the reply is lost
//	Proxy.HoldBefore             holds a request until released
//	Proxy.HoldAfter              holds a reply until released
//	Proxy.Freeze                 stops all bytes; connections stay
//	Proxy.FreezeWay              stops the bytes of one direction
//	Proxy.Cut                    ends connections
//	Proxy.ResetSide                  resets one side and leaves the other half-open
//	Proxy.Replace                gives another reply
//	Proxy.Corrupt                corrupts a share of all replies
//	Proxy.Refuse                 accepts no connections
//	Proxy.Delay, Proxy.Throttle  add latency and limit the bandwidth
//
// A [Fault] is one fault at one command. A test waits until the fault was triggered.
//
// The proxy parses both directions, to know which reply belongs to which command. A command is
// forwarded when it is complete. Replies are forwarded as they come. Before a connection is cut at
// a command, everything earlier was forwarded and its replies were delivered. Nothing later is
// forwarded. So what was executed, and what the client knows, does not depend on timing.
//
// The proxy stops parsing a connection after MONITOR, after CLIENT REPLY OFF or SKIP, and after a
// protocol error. From then on, no command of the connection matches. A connection that sends PSYNC
// or SYNC is a replica's, and no fault affects it. Its master announces the proxy's port.
//
// All methods are safe for concurrent use. The kernel continues as usual: a frozen connection still
// acknowledges bytes and keepalives. If the target is down, the proxy accepts a connection and then
// closes it.
package faultproxy
