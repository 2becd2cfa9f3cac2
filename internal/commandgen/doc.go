// Package commandgen makes random Redis commands for tests that compare two servers.
//
// [Learn] asks a server for its grammar: the argument trees of COMMAND DOCS. So every command that
// reads or writes data is made with every option, also on a server that is newer than this package.
// A [Generator] walks the trees. Where a tree says too little (scripts, SORT, options that depend
// on chance), a form written by hand replaces it. Some commands are damaged on purpose: too short,
// huge, empty, binary, or with an argument that does not belong there.
//
// The replies depend only on the commands before, as far as Redis allows. There are no ids that the
// server chooses, no expiry within the time of a test, and no random elements. [LeftOut] lists what
// cannot be made so, each with its reason. The caller compares some replies loosely: sets and
// hashes in any order, times with a tolerance.
//
// A Generator with the same seed, options and grammar makes the same commands. It is not safe for
// concurrent use.
package commandgen
