// Package command has the table of all commands: Redis's and Leash's own.
//
// A [Table] is made from the upstream's reply to COMMAND ([Parse], [New]). It says of each
// [Command] how many arguments it has, which of them are keys ([KeySpec]), what it may do, and how
// Leash treats it ([Class]). What COMMAND does not say is in files of this package: class.go has
// the commands that need more than being relayed, own.go has Leash's own, and commands.txt has the
// commands of a server that does not report them.
//
// The package runs no command. Package proxy keeps a function for each, by [Command.Index].
//
// A table is immutable, so it needs no lock.
package command
