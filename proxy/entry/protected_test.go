package entry

import (
	"net"
	"testing"
)

// TestIsLocal checks which clients protected mode takes for those of this machine.
func TestIsLocal(t *testing.T) {
	for ip, want := range map[string]bool{
		"127.0.0.1": true, "127.8.9.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"10.0.0.1": false, "0.0.0.0": false, "::": false, "fe80::1": false,
	} {
		if got := isLocal(&net.TCPAddr{IP: net.ParseIP(ip)}); got != want {
			t.Errorf("%s: got %v", ip, got)
		}
	}
	if !isLocal(&net.UnixAddr{Net: "unix"}) {
		t.Error("a unix socket is not local")
	}
}
