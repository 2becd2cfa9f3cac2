//go:build !linux

package redistest

import "syscall"

// ownedAttr has no way here to tie the process to ours; Close ends it.
func ownedAttr() *syscall.SysProcAttr { return nil }

// AwaitStopped cannot wait here: the signal takes effect soon after.
func AwaitStopped(int) error { return nil }
