package proxy

import (
	"crypto/sha1"
	"encoding/hex"
	"net"
	"strconv"
)

// announcedAddr is Leash as cluster clients see it: one node, at the address where they
// shall connect.
type announcedAddr struct {
	host string // an IP address or a name
	port int
}

// busOffset is how far behind its port a node's cluster bus listens.
const busOffset = 10000

// announcedAddr returns what this session's client shall see: Config.Announce, or else
// the address that the client connected to. A client of a unix socket sees the
// first TCP port there is.
func (s *session) announcedAddr() announcedAddr {
	if s.server.announce != (announcedAddr{}) {
		return s.server.announce
	}
	if own := announcedAddrOf(s.conn.LocalAddr()); own != (announcedAddr{}) {
		return own
	}
	return s.server.firstTCPAddr
}

// announcedAddrOf is zero for an address that is not TCP's.
func announcedAddrOf(addr net.Addr) announcedAddr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return announcedAddr{}
	}
	return announcedAddr{tcp.IP.String(), tcp.Port}
}

// firstTCPAddr returns the address that clients of a unix socket are told: the first TCP listener,
// on loopback if it listens everywhere.
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

// parseAnnouncedAddr reads host:port; it is zero for an empty text.
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

// id is the node's id: 40 hexadecimal digits that stay as they are while the
// address does, on every Leash that announces it.
func (a announcedAddr) id() string {
	sum := sha1.Sum([]byte("leash " + a.addr()))
	return hex.EncodeToString(sum[:])
}

// addr is host:port as Redis writes it, without brackets around IPv6.
func (a announcedAddr) addr() string { return a.host + ":" + strconv.Itoa(a.port) }

// bus is the port of the cluster bus, or 0 if there is none.
func (a announcedAddr) bus() int {
	if a.port == 0 || a.port+busOffset > 65535 {
		return 0
	}
	return a.port + busOffset
}

// isName reports whether the host is a name, not an IP address.
func (a announcedAddr) isName() bool { return a.host != "" && net.ParseIP(a.host) == nil }
