package cluster

import (
	"crypto/sha1"
	"encoding/hex"
	"net"
	"strconv"
)

// Addr is the address that Leash announces to cluster clients. They see Leash as one node
// at this address.
type Addr struct {
	Host string // an IP address or a name
	Port int
}

// busOffset is the port of a node's cluster bus minus the port of the node.
const busOffset = 10000

// AddrOf returns the address as a host and a port. It is zero for an address that is not
// TCP.
func AddrOf(addr net.Addr) Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return Addr{}
	}
	return Addr{tcp.IP.String(), tcp.Port}
}

// FirstAddr returns the address that clients of a unix socket are told. It is that of the first
// TCP listener. If the listener is on all addresses, the host is 127.0.0.1.
func FirstAddr(lns []net.Listener) Addr {
	for _, ln := range lns {
		tcp, ok := ln.Addr().(*net.TCPAddr)
		switch {
		case !ok:
		case tcp.IP.IsUnspecified():
			return Addr{"127.0.0.1", tcp.Port}
		default:
			return AddrOf(tcp)
		}
	}
	return Addr{}
}

// ParseAddr parses host:port. It returns zero for an empty text.
func ParseAddr(announce string) (Addr, error) {
	if announce == "" {
		return Addr{}, nil
	}
	host, port, err := net.SplitHostPort(announce)
	if err != nil {
		return Addr{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return Addr{host, int(n)}, err
}

// ID is the node's id, 40 hexadecimal digits. It depends only on the address, so every Leash that
// announces the address has the same id.
func (a Addr) ID() string {
	sum := sha1.Sum([]byte("leash " + a.addr()))
	return hex.EncodeToString(sum[:])
}

// addr is host:port as Redis writes it, without brackets around IPv6.
func (a Addr) addr() string { return a.Host + ":" + strconv.Itoa(a.Port) }

// bus is the port of the cluster bus. It is 0 if there is no port, or if the sum is above 65535.
func (a Addr) bus() int {
	if a.Port == 0 || a.Port+busOffset > 65535 {
		return 0
	}
	return a.Port + busOffset
}

// isName reports whether the host is a name, not an IP address.
func (a Addr) isName() bool { return a.Host != "" && net.ParseIP(a.Host) == nil }
