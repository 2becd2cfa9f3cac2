package scan

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"leash/proxy/resp"
)

// A cursor says how far SCAN has come in a cluster. It holds everything about the scan, so
// another Leash can continue it. As a number, it has these parts, from the lowest bits on:
//
//	2 bits   pass
//	22 bits  name of the node (stop)
//	the rest the node's own cursor
//
// Redis's own cursor is smaller than its hash table. A table with up to 2^29 entries (half a
// billion keys in one node) gives a number below 2^53, which JavaScript can represent. The number
// is never above 2^64, which is Redis's own limit.
type cursor struct {
	pass  pass
	name  uint32
	local uint64
}

const (
	passBits  = 2
	nameBits  = 22
	localFrom = passBits + nameBits
)

// errCursor is the error for a node's cursor of 2^40 or more.
var errCursor = errors.New("ERR the cursor of a node is too large for Leash")

func (c cursor) number() (uint64, error) {
	if c.local > math.MaxUint64>>localFrom {
		return 0, errCursor
	}
	return c.local<<localFrom | uint64(c.name)<<passBits | uint64(c.pass), nil
}

// parseCursor parses a client's cursor. It returns false for a cursor that Redis itself must
// check. Zero begins a scan.
func parseCursor(arg []byte) (c cursor, ok bool) {
	n, err := strconv.ParseUint(string(arg), 10, 64)
	if err != nil {
		return c, false
	}
	c.pass = pass(n & (1<<passBits - 1))
	c.name = uint32(n >> passBits & (1<<nameBits - 1))
	c.local = n >> localFrom
	return c, true
}

// ParseReply returns the cursor in a node's reply to SCAN, and the list of keys as the node
// sent it.
func ParseReply(got []byte) (local uint64, keys []byte, ok bool) {
	rest, n, ok := resp.CutHeader(got, "*")
	if !ok || n != 2 || len(rest) == 0 || rest[0] != '$' {
		return 0, nil, false
	}
	_, rest, _ = bytes.Cut(rest, []byte("\r\n"))
	digits, keys, ok := bytes.Cut(rest, []byte("\r\n"))
	local, err := strconv.ParseUint(string(digits), 10, 64)
	return local, keys, ok && err == nil
}

// reply makes the reply that ParseReply parses.
func reply(next uint64, keys []byte) []byte {
	b := resp.AppendArray(make([]byte, 0, len(keys)+64), 2)
	b = resp.AppendBulk(b, strconv.FormatUint(next, 10))
	return append(b, keys...)
}
