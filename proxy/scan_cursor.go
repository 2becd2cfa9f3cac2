package proxy

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"leash/proxy/resp"
)

// A scanCursor says how far SCAN has come in a cluster. It is all that is known
// of a scan, so any Leash goes on where another stopped. As a number it is,
// from its lowest bits on:
//
//	2 bits   pass
//	22 bits  name of the node: of a slot that it owns (scanOrder)
//	the rest the node's own cursor
//
// Redis's own cursor is smaller than its hash table, so the number is below
// 2^53, as far as JavaScript counts, while the table has up to 2^29 places:
// half a billion keys in one node. Beyond that it is below 2^64, as Redis's are.
type scanCursor struct {
	pass  scanPass
	name  uint32
	local uint64
}

const (
	passBits  = 2
	nameBits  = 22
	localFrom = passBits + nameBits
)

// errScanCursor answers a cursor of a node that has 2^40 places or more.
var errScanCursor = errors.New("ERR the cursor of a node is too large for Leash")

func (c scanCursor) number() (uint64, error) {
	if c.local > math.MaxUint64>>localFrom {
		return 0, errScanCursor
	}
	return c.local<<localFrom | uint64(c.name)<<passBits | uint64(c.pass), nil
}

// parseScanCursor parses a client's cursor. It returns false for a cursor that Redis itself must
// check. Zero begins a scan.
func parseScanCursor(arg []byte) (c scanCursor, ok bool) {
	n, err := strconv.ParseUint(string(arg), 10, 64)
	if err != nil {
		return c, false
	}
	c.pass = scanPass(n & (1<<passBits - 1))
	c.name = uint32(n >> passBits & (1<<nameBits - 1))
	c.local = n >> localFrom
	return c, true
}

// parseScanReply takes the reply of a node's SCAN apart: its cursor, and the
// list of keys as it is.
func parseScanReply(reply []byte) (local uint64, keys []byte, ok bool) {
	rest, n, ok := arrayHeader(reply)
	if !ok || n != 2 || len(rest) == 0 || rest[0] != '$' {
		return 0, nil, false
	}
	_, rest, _ = bytes.Cut(rest, []byte("\r\n"))
	digits, keys, ok := bytes.Cut(rest, []byte("\r\n"))
	local, err := strconv.ParseUint(string(digits), 10, 64)
	return local, keys, ok && err == nil
}

// scanReply is the opposite of parseScanReply.
func scanReply(cursor uint64, keys []byte) []byte {
	b := resp.AppendArray(make([]byte, 0, len(keys)+64), 2)
	b = resp.AppendBulk(b, strconv.FormatUint(cursor, 10))
	return append(b, keys...)
}
