// Package cli has the commands of the leash binary that are clients of a running Leash: leash lock,
// elect, locks, break, status and health.
//
// Each command is one file. The two that run another program under a lock share
//
//	holder.go         a lock or permits, from the grant to the release
//	lock_keeper.go    how the holder of a lock keeps knowing that it is still its own
//	permit_keeper.go  the same for permits
//	child.go          the program: its process group and its end
//	signals.go        signals to the program, and those that end a wait
//	terminal.go       the terminal, which the program gets
//
// A command speaks to the first Leash of --server that answers. Nothing here knows the server's
// side: the commands use only what any client of Leash can send.
package cli
