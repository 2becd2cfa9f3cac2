package redistest

import (
	"net"
	"runtime"
	"strconv"
	"testing"
)

// TestReservedAddrStays: The claim on the port outlives what asked for it, or another test starts
// its server there while this one restarts its own.
func TestReservedAddrStays(t *testing.T) {
	t.Parallel()
	addr, err := ReserveAddr()
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	_, number, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(number)
	if claim, err := claimName(n); err == nil {
		t.Errorf("port %d can be claimed again", n)
		_ = claim.Close()
	}
}
