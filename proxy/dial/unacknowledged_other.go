//go:build !linux

package dial

import (
	"syscall"
	"time"
)

// On other systems than Linux, the kernel's own limit applies.
func endUnacknowledged(time.Duration) func(network, addr string, socket syscall.RawConn) error {
	return nil
}
