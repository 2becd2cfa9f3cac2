// Package commandgen makes random Redis commands for tests that compare two servers.
//
// [Learn] asks a server for its grammar, the argument trees of COMMAND DOCS, so that every command
// that reads or writes data is made with every option it has, also those of a newer server than
// this package knows. A [Generator] walks the trees; where a tree says too little (scripts, SORT,
// options whose effect depends on chance) a form written by hand takes its place. Some commands
// come out mangled: too short, with an argument that does not belong, huge, empty or binary ones.
//
// The replies depend on nothing but the commands before, as far as Redis allows: no ids of the
// server's choice, no expiry within a test's time, no element picked at random. What cannot be made
// so is left out, with its reason in [LeftOut], or has to be compared loosely by the caller: sets
// and hashes in no order, times nearly.
//
// A Generator with the same seed, options and grammar makes the same commands. It is not safe for
// concurrent use.
package commandgen
