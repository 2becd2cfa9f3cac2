//go:build !linux

package redistest

import "syscall"

// ownedAttr has no way here to tie the process to ours; Close ends it.
func ownedAttr() *syscall.SysProcAttr { return nil }

// awaitStopped cannot wait here: the signal takes effect soon after.
func awaitStopped(int) error { return nil }
