// Package resp reads the Redis protocol as far as a proxy needs it. A [Parser] finds where a
// client's command ends. A [Scanner] finds where a server's reply ends. The Append functions write
// the few replies that Leash makes itself. What can be passed on as bytes is never decoded.
//
// Parser and Scanner are state machines. They take whatever the socket gave and remember where they
// were. Each is for one goroutine at a time. Neither does I/O.
//
// Requests follow the grammar of Redis's networking.c, including what Redis does not check: see
// Parser. Replies follow RESP2 and RESP3:
// https://redis.io/docs/latest/develop/reference/protocol-spec/
package resp
