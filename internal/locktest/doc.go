// Package locktest starts the lock service of a Leash for tests, on a real Redis and without the
// proxy in front, and has clients for it. It looks at what the service keeps in Redis, puts faults
// between the two, and does what Redisson's locks do. Tests of a whole Leash use proxytest.
package locktest
