// Package resp knows the Redis serialization protocol as far as a relay needs
// it: where a client's command ends (Parser), where a server's reply ends
// (Scanner), and how the few replies that Leash makes itself are written
// (the Append functions). It decodes nothing that can be passed on as bytes.
//
// Parser and Scanner are state machines that are fed whatever the socket gave
// and remember where they were; both are for one goroutine at a time. Neither
// does I/O.
//
// The grammar of requests is that of Redis's own networking.c, down to what it
// does not look at; see Parser. The grammar of replies is RESP2 and RESP3 as
// https://redis.io/docs/latest/develop/reference/protocol-spec/ has them.
package resp
