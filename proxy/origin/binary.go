package origin

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
)

// In version 2, these fields follow the signature: one byte with the version (high four bits) and
// the command, one byte with the family (high four bits) and the transport, and two bytes with the
// length of the rest. The rest is the addresses and other fields (TLVs).
const (
	version2     = 0x20
	commandLocal = 0x0 // the balancer's own connection
	commandProxy = 0x1

	familyUnknown = 0x00
	familyTCP4    = 0x11
	familyTCP6    = 0x21
	familyUnix    = 0x31 // stream

	// maxRest limits the length, in bytes. Balancers add some hundred bytes of other fields, such
	// as a TLS name or an id. The protocol allows 64 KiB.
	maxRest = 4 << 10
)

func readBinary(r io.Reader) (Origin, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Origin{}, unexpected(err)
	}
	length := binary.BigEndian.Uint16(head[2:])
	switch {
	case head[0] != version2|commandLocal && head[0] != version2|commandProxy:
		return Origin{}, invalid("its version or command is unknown")
	case length > maxRest:
		return Origin{}, invalid("it is too long")
	}
	rest := make([]byte, length)
	if _, err := io.ReadFull(r, rest); err != nil {
		return Origin{}, unexpected(err)
	}
	if head[0] == version2|commandLocal {
		return Origin{}, nil // the rest has no meaning
	}
	return parseBinary(head[1], rest)
}

func parseBinary(family byte, rest []byte) (Origin, error) {
	switch family {
	case familyUnknown, familyUnix:
		return Origin{}, nil
	case familyTCP4:
		return parseTCP(rest, net.IPv4len)
	case familyTCP6:
		return parseTCP(rest, net.IPv6len)
	}
	return Origin{}, invalid("its family is unknown, or not of a stream")
}

// parseTCP takes two addresses of size bytes each, then two ports.
func parseTCP(b []byte, size int) (Origin, error) {
	if len(b) < 2*size+4 {
		return Origin{}, invalid("its addresses are incomplete")
	}
	end := func(i int) net.Addr {
		ip, _ := netip.AddrFromSlice(b[i*size : (i+1)*size])
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[2*size+2*i:])))
	}
	return Origin{Client: end(0), Server: end(1)}, nil
}
