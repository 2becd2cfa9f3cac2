// Package proxytest runs a whole Leash inside a test, in front of a real Redis. It also has what
// tests of several packages need: clients, keys on certain nodes, and locks.
//
// What a function starts ends with the test. All functions end the test when something fails, so
// only the test's own goroutine may call them.
package proxytest
