// Package origin reads the address of a client from the header that a load balancer sends before
// the client's bytes. It reads the PROXY protocol, version 1 or 2:
// https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt
//
// It accepts exactly what that text allows. Otherwise a client could send its own header and claim
// any address. Read reads no byte after the header, so TLS may follow. It keeps no state. It is
// safe for concurrent use with different readers.
package origin

import (
	"errors"
	"io"
	"net"
	"strings"
)

// ErrHeader is matched by every error of Read about invalid bytes.
var ErrHeader = errors.New("no valid header of the PROXY protocol")

// Origin is the content of the header.
type Origin struct {
	// Client is the TCP address that connected to the balancer. Server is the address that it
	// connected to. Both are nil if the balancer does not know them, if the client connected to a
	// unix socket, or if the connection is the balancer's own, as in a health check.
	Client, Server net.Addr
}

// signature begins each header of version 2. No command of a Redis client begins with it.
const signature = "\r\n\r\n\x00\r\nQUIT\n"

// Read reads one header. The error is io.EOF if r ends before the first byte. It matches ErrHeader
// if the header is invalid. Otherwise it is the error of r.
func Read(r io.Reader) (Origin, error) {
	var start [len(signature)]byte // shorter than the shortest header
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

// unexpected returns the error for an end or a failure in the middle of a header.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// invalid is an ErrHeader with its reason.
type invalid string

func (e invalid) Error() string        { return ErrHeader.Error() + ": " + string(e) }
func (e invalid) Is(target error) bool { return target == ErrHeader }
