// Package faultproxy is a TCP proxy for tests that stands before a RESP server and fails on demand,
// in the ways that matter to whoever talks to that server.
//
// [Proxy] listens, forwards, and takes orders: [Proxy.DropBefore] and [Proxy.DropAfter] cut a
// connection around one command, so that it was not executed or was executed and its reply is lost;
// [Proxy.HoldBefore] and [Proxy.HoldAfter] keep the request or the reply back until told;
// [Proxy.Freeze] stops all bytes while connections stay, [Proxy.FreezeWay] those of one direction,
// [Proxy.Cut] ends connections, [Proxy.Sever] leaves them half-open, [Proxy.Replace] gives another
// reply, [Proxy.Corrupt] spoils a share of all, [Proxy.Refuse] lets nobody in, [Proxy.Delay] makes
// the way longer and [Proxy.Throttle] narrower. A [Fault] is one armed order, with which a test
// waits until it has struck.
//
// The proxy parses both directions to know which reply belongs to which command. A command is
// forwarded when it is whole; replies are forwarded as they come. Before a connection is cut around
// a command everything earlier on it has been forwarded and its replies delivered, and nothing
// later is forwarded: what was executed and what the client was told does not depend on timing.
//
// Some connections are not followed any more, and no command of theirs matches from there on: after
// MONITOR, after CLIENT REPLY OFF or SKIP, and after what Redis would call a protocol error. A
// connection that sends PSYNC or SYNC is a replica's, which comes this way when its master
// announces the proxy's port: no fault touches it from then on.
//
// All methods are safe for concurrent use. What the kernel does stays as it is: a frozen connection
// still acknowledges bytes and keepalives, and a connection to a dead target is accepted and then
// closed.
package faultproxy
