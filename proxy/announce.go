package proxy

import (
	"crypto/sha1"
	"encoding/hex"
	"net"
	"strconv"
)

// announcedAddr is the address that Leash announces to cluster clients. They see Leash as one node
// at this address.
type announcedAddr struct {
	host string // an IP address or a name
	port int
}

// busOffset is the port of a node's cluster bus minus the port of the node.
const busOffset = 10000

// announcedAddr returns the address for this session's client. It is Config.Announce. If that is
// not set, it is the address that the client connected to. A client of a unix socket gets the
// address of the first TCP listener.
func (s *session) announcedAddr() announcedAddr {
	if s.server.announce != (announcedAddr{}) {
		return s.server.announce
	}
	if own := announcedAddrOf(s.conn.LocalAddr()); own != (announcedAddr{}) {
		return own
	}
	return s.server.firstTCPAddr
}

// announcedAddrOf returns the address as a host and a port. It is zero for an address that is not
// TCP.
func announcedAddrOf(addr net.Addr) announcedAddr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return announcedAddr{}
	}
	return announcedAddr{tcp.IP.String(), tcp.Port}
}

// firstTCPAddr returns the address that clients of a unix socket are told. It is that of the first
// TCP listener. If the listener is on all addresses, the host is 127.0.0.1.
func firstTCPAddr(lns []net.Listener) announcedAddr {
	for _, ln := range lns {
		tcp, ok := ln.Addr().(*net.TCPAddr)
		switch {
		case !ok:
		case tcp.IP.IsUnspecified():
			return announcedAddr{"127.0.0.1", tcp.Port}
		default:
			return announcedAddrOf(tcp)
		}
	}
	return announcedAddr{}
}

// parseAnnouncedAddr parses host:port. It returns zero for an empty text.
func parseAnnouncedAddr(announce string) (announcedAddr, error) {
	if announce == "" {
		return announcedAddr{}, nil
	}
	host, port, err := net.SplitHostPort(announce)
	if err != nil {
		return announcedAddr{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return announcedAddr{host, int(n)}, err
}

// id is the node's id, 40 hexadecimal digits. It depends only on the address, so every Leash that
// announces the address has the same id.
func (a announcedAddr) id() string {
	sum := sha1.Sum([]byte("leash " + a.addr()))
	return hex.EncodeToString(sum[:])
}

// addr is host:port as Redis writes it, without brackets around IPv6.
func (a announcedAddr) addr() string { return a.host + ":" + strconv.Itoa(a.port) }

// bus is the port of the cluster bus. It is 0 if there is no port, or if the sum is above 65535.
func (a announcedAddr) bus() int {
	if a.port == 0 || a.port+busOffset > 65535 {
		return 0
	}
	return a.port + busOffset
}

// isName reports whether the host is a name, not an IP address.
func (a announcedAddr) isName() bool { return a.host != "" && net.ParseIP(a.host) == nil }
