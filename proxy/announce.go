package proxy

import (
	"crypto/sha1"
	"encoding/hex"
	"net"
	"strconv"
)

// face is Leash as cluster clients see it: one node, at the address where they
// shall connect.
type face struct {
	host string // an IP address or a name
	port int
}

// busOffset is how far behind its port a node's cluster bus listens.
const busOffset = 10000

// face returns what this session's client shall see: Config.Announce, or else
// the address that the client connected to. A client of a unix socket sees the
// first TCP port there is.
func (s *session) face() face {
	if s.server.announce != (face{}) {
		return s.server.announce
	}
	if own := faceOf(s.conn.LocalAddr()); own != (face{}) {
		return own
	}
	return s.server.firstPort
}

// faceOf is zero for an address that is not TCP's.
func faceOf(addr net.Addr) face {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return face{}
	}
	return face{tcp.IP.String(), tcp.Port}
}

// firstPort finds what clients of a unix socket are told: the first TCP
// listener, on loopback if it listens everywhere.
func firstPort(lns []net.Listener) face {
	for _, ln := range lns {
		tcp, ok := ln.Addr().(*net.TCPAddr)
		switch {
		case !ok:
		case tcp.IP.IsUnspecified():
			return face{"127.0.0.1", tcp.Port}
		default:
			return faceOf(tcp)
		}
	}
	return face{}
}

// parseFace reads host:port; it is zero for an empty text.
func parseFace(announce string) (face, error) {
	if announce == "" {
		return face{}, nil
	}
	host, port, err := net.SplitHostPort(announce)
	if err != nil {
		return face{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return face{host, int(n)}, err
}

// id is the node's id: 40 hexadecimal digits that stay as they are while the
// address does, on every Leash that announces it.
func (f face) id() string {
	sum := sha1.Sum([]byte("leash " + f.addr()))
	return hex.EncodeToString(sum[:])
}

// addr is host:port as Redis writes it, without brackets around IPv6.
func (f face) addr() string { return f.host + ":" + strconv.Itoa(f.port) }

// bus is the port that the cluster bus would have, 0 if there is none.
func (f face) bus() int {
	if f.port == 0 || f.port+busOffset > 65535 {
		return 0
	}
	return f.port + busOffset
}

// isName reports whether the host is a name, not an IP address.
func (f face) isName() bool { return f.host != "" && net.ParseIP(f.host) == nil }
