package cli

import "syscall"

// dieWithParent makes the kernel kill the program when this process dies, however that happens.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
