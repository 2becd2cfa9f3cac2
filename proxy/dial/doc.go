// Package dial makes every connection from Leash to Redis and to sentinels: TLS, the login, and
// what else a connection is set up with. It knows the credentials, and which password of Leash's
// own user is the newest.
//
// # Types
//
//	Dialer       opens connections; there is one for all of Leash
//	Lane         what a connection is set up as: user, database, RESP version
//	Login        whether an open connection must send AUTH again
//	Conn         asks one server questions, and decodes the replies
//
// # Concurrency
//
// A Dialer is safe for concurrent use, and starts no goroutine that outlives a call. Its methods
// block for as long as their contexts and the time-outs of Config allow. No mutex is held across
// I/O. A Login belongs to one goroutine, or to the mutex of its connection.
package dial
