package program

import "syscall"

// fitOpenFiles returns how many of so many clients Leash serves at once: at most three quarters of
// the files that it may open. The rest is for connections to Redis. Without such a connection,
// Leash cannot renew a lock. Go has raised the soft limit to the hard limit at the start.
func fitOpenFiles(clients int) int {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return clients
	}
	return int(min(uint64(clients), uint64(files.Cur)/4*3))
}
