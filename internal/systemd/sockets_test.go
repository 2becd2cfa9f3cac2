package systemd

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// listen opens a socket for a test.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func TestListenTakesTheSocketOfItsAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	local, unix, every := listen(t, "tcp", "127.0.0.1:0"), listen(t, "unix", path), listen(t, "tcp", ":0")
	_, port, _ := net.SplitHostPort(every.Addr().String())
	s := &Sockets{left: []net.Listener{local, unix, every}}
	for _, tc := range []struct {
		network, address string
		want             net.Listener
	}{
		{"unix", path, unix},
		{"tcp", "0.0.0.0:" + port, every},
		{"tcp", local.Addr().String(), local},
	} {
		if err := s.Unused(); err == nil || !strings.Contains(err.Error(), "systemd has a socket for ") {
			t.Errorf("before %s: Unused gives %v", tc.address, err)
		}
		got, err := s.Listen(tc.network, tc.address)
		if err != nil || got != tc.want {
			t.Errorf("Listen(%s, %s) gives %v, %v", tc.network, tc.address, got, err)
		}
	}
	if err := s.Unused(); err != nil {
		t.Errorf("all are taken, but Unused gives %v", err)
	}
}

func TestListenOpensWhatSystemdHasNot(t *testing.T) {
	other := listen(t, "tcp", "127.0.0.1:0")
	s := &Sockets{left: []net.Listener{other}}
	ln, err := s.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if ln == other {
		t.Error("Listen has taken the socket of another port")
	}
}
