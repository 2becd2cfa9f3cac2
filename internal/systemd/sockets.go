package systemd

import (
	"errors"
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
)

// Sockets are the listening sockets that systemd has opened for this process. Not safe for
// concurrent use.
type Sockets struct{ left []net.Listener }

// Inherit takes the sockets over. The environment does not name them afterwards, so no child takes
// them, too. There are none without systemd.
func Inherit() (*Sockets, error) {
	all, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("sockets of systemd: %w", err)
	}
	s := &Sockets{}
	for _, ln := range all {
		if ln == nil {
			s.Close()
			return nil, errors.New("sockets of systemd: one of them does not listen for connections: use ListenStream=")
		}
		s.left = append(s.left, ln)
	}
	return s, nil
}

// Listen returns systemd's socket for an address. If there is none, it opens a new one, as
// net.Listen does. All interfaces are one address, whether of IPv4 or of IPv6.
func (s *Sockets) Listen(network, address string) (net.Listener, error) {
	for i, ln := range s.left {
		if same(ln.Addr(), network, address) {
			s.left = append(s.left[:i:i], s.left[i+1:]...)
			return ln, nil
		}
	}
	return net.Listen(network, address)
}

// Unused returns an error if a socket has not been taken. Its clients would wait for nobody.
func (s *Sockets) Unused() error {
	if len(s.left) == 0 {
		return nil
	}
	addr := s.left[0].Addr().String()
	return fmt.Errorf("systemd has a socket for %s: give --listen or --tls-listen this address, or end the socket unit", addr)
}

// Close closes the sockets that have not been taken.
func (s *Sockets) Close() {
	for _, ln := range s.left {
		ln.Close()
	}
	s.left = nil
}

// same reports whether a socket listens where network and address say.
func same(addr net.Addr, network, address string) bool {
	if addr.Network() != network {
		return false
	}
	has, ok := addr.(*net.TCPAddr)
	if !ok {
		return addr.String() == address
	}
	wants, err := net.ResolveTCPAddr(network, address)
	if err != nil || wants.Port == 0 || wants.Port != has.Port {
		return false
	}
	everywhere := wants.IP == nil || wants.IP.IsUnspecified()
	return everywhere && has.IP.IsUnspecified() || wants.IP.Equal(has.IP)
}
