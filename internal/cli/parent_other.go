//go:build !linux

package cli

import "syscall"

// dieWithParent does nothing: only Linux can tell a program of its parent's death.
func dieWithParent(*syscall.SysProcAttr) {}
