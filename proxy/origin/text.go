package origin

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Version 1 is one line: "PROXY", the family, the addresses of client and server, and their ports.
// Single spaces separate the fields. CRLF ends the line.
const (
	textPrefix  = "PROXY "
	maxTextLine = 107 // bytes, with CRLF
)

// readText reads the rest of a header whose first bytes are start. It reads byte by byte, because
// only the line end shows the length.
func readText(r io.Reader, start []byte) (Origin, error) {
	line := append(make([]byte, 0, maxTextLine), start...)
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		n := len(line)
		if n == maxTextLine || line[n-1] == '\n' {
			return Origin{}, invalid("its line does not end")
		}
		if _, err := io.ReadFull(r, line[n:n+1]); err != nil {
			return Origin{}, unexpected(err)
		}
		line = line[:n+1]
	}
	return parseText(string(line[len(textPrefix) : len(line)-2]))
}

func parseText(s string) (Origin, error) {
	fields := strings.Split(s, " ")
	if fields[0] == "UNKNOWN" {
		return Origin{}, nil // the rest has no meaning
	}
	if len(fields) != 5 || fields[0] != "TCP4" && fields[0] != "TCP6" {
		return Origin{}, invalid("its family or the number of its fields is wrong")
	}
	var ends [2]net.Addr
	for i := range ends {
		ip, err := netip.ParseAddr(fields[1+i])
		port, ok := parsePort(fields[3+i])
		if err != nil || ip.Zone() != "" || ip.Is4() != (fields[0] == "TCP4") || !ok {
			return Origin{}, invalid("an address or a port is wrong")
		}
		ends[i] = net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, port))
	}
	return Origin{Client: ends[0], Server: ends[1]}, nil
}

// parsePort accepts only digits, without leading zeros.
func parsePort(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && strconv.FormatUint(n, 10) == s
}
