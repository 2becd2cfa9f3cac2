package topology

import (
	"net"
	"strconv"
	"strings"
)

// Addr returns the host and the port that a redirect names. A host that Redis leaves out is that of
// the node that was asked. ok is false if they cannot be dialled.
func Addr(text, asked string) (addr string, ok bool) {
	addr = completeAddr(text, asked)
	return addr, isAddr(addr)
}

// completeAddr fills in the host that Redis leaves out ("?" or empty) for the node that was asked.
func completeAddr(addr, asked string) string {
	host, port, err := net.SplitHostPort(addr)
	if i := strings.LastIndexByte(addr, ':'); err != nil && i > 0 {
		return net.JoinHostPort(addr[:i], addr[i+1:]) // Redis puts no brackets around IPv6
	}
	if err != nil || host != "" && host != "?" {
		return addr
	}
	host, _, _ = net.SplitHostPort(asked)
	return net.JoinHostPort(host, port)
}

// isAddr reports whether addr is a host and a port that can be dialled.
func isAddr(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n > 0 && host != "" && len(host) <= 255
}
