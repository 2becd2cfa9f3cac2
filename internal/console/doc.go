// Package console is the page for operators and the API that it reads: what Leash does now, which
// holds, locks and clients there are, and what happens to locks.
//
//	GET  /api/overview   figures of Leash and of its nodes
//	GET  /api/holds      holds of this Leash: search, sort, page
//	GET  /api/lock       one lock: who holds it, who waits, what happened last
//	GET  /api/clients    clients of this Leash: search, page
//	GET  /api/events     the overview every two seconds and changes of locks, as a stream
//	POST /api/break      ends a lock, if its holders are those that the request names
//	POST /api/kill       ends the connection of a client
//
// A [Console] reads from a [Backend], which exists once Redis is connected. It keeps the last
// events of locks, as a view.Observer. Losses are always kept. Grants and releases are kept only
// while there is a reader of /api/events, so nobody pays for them while nobody looks.
//
// The package knows no tokens: package admin lets only the right requests through. Everything is
// safe for concurrent use. No answer has more than a page. The number of requests and of readers of
// events is limited.
package console
