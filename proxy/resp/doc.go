// Package resp reads the Redis protocol as far as a proxy needs it. A [Parser] finds where a
// client's command ends. A [Scanner] finds where a server's reply ends. The Append functions write
// the few replies that Leash makes itself. Bytes that Leash only passes on are not decoded.
//
// Parser and Scanner are state machines. They take any number of bytes and remember their state.
// Each is for one goroutine at a time. Neither does I/O.
//
// Requests follow the grammar of Redis's networking.c, also where Redis checks nothing: see Parser.
// Replies follow RESP2 and RESP3:
// https://redis.io/docs/latest/develop/reference/protocol-spec/
package resp
