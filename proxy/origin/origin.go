// Package origin reads from which client a connection comes, where a load balancer says so. It
// reads the header of the PROXY protocol, version 1 or 2:
// https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt
//
// It accepts exactly what that text allows. A client that could choose how the header is read could
// claim any address. Read takes not one byte more than the header has, so anything may follow,
// also TLS. It keeps no state, and is safe for concurrent use with different readers.
package origin

import (
	"errors"
	"io"
	"net"
	"strings"
)

// ErrHeader is matched by every error of Read that is about what was read.
var ErrHeader = errors.New("no valid header of the PROXY protocol")

// Origin is the content of the header.
type Origin struct {
	// Client is the address that connected to the balancer, and Server the address it connected to.
	// They are TCP or unix addresses. Both are nil when the balancer speaks for itself, as in a
	// health check, or does not know them.
	Client, Server net.Addr
}

// signature begins each header of version 2. No command of a Redis client begins with it.
const signature = "\r\n\r\n\x00\r\nQUIT\n"

// Read reads one header. The error is io.EOF when r ends before the first
// byte, one that matches ErrHeader when what came is no valid header, and
// otherwise that of r.
func Read(r io.Reader) (Origin, error) {
	var start [len(signature)]byte // less than the shortest header has
	for n := 0; n < len(start); {
		got, err := r.Read(start[n:])
		n += got
		switch begun := string(start[:n]); {
		case !strings.HasPrefix(signature, begun) && !strings.HasPrefix(begun, textPrefix[:min(n, len(textPrefix))]):
			return Origin{}, invalid("it does not begin with one")
		case n == len(start): // if r has ended, the next read reports it
		case err != nil && n > 0:
			return Origin{}, unexpected(err)
		case err != nil:
			return Origin{}, err
		}
	}
	if string(start[:]) == signature {
		return readBinary(r)
	}
	return readText(r, start[:])
}

// unexpected is an error in the middle of a header.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// invalid returns an ErrHeader with the reason.
type invalid string

func (e invalid) Error() string        { return ErrHeader.Error() + ": " + string(e) }
func (e invalid) Is(target error) bool { return target == ErrHeader }
