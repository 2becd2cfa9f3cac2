package resp

import (
	"bytes"
	"io"
)

// ReadReply reads one reply from r, after which r must give no more bytes. The reply has at most
// most bytes. If resp2 is set, it has only types of RESP2. The error is ErrFrame if r gives
// anything else.
func ReadReply(r io.Reader, most int, resp2 bool) ([]byte, error) {
	scan := Scanner{RESP2: resp2}
	var reply []byte
	buf := make([]byte, 512)
	for {
		n, err := r.Read(buf)
		if n == 0 && err != nil {
			return nil, err
		}
		used, done, err := scan.Scan(buf[:n])
		if err != nil {
			return nil, err
		}
		reply = append(reply, buf[:used]...)
		switch {
		case used < n, len(reply) > most:
			return nil, ErrFrame
		case done:
			return reply, nil
		}
	}
}

// maxDepth limits the nesting of a reply for a decoder that uses recursion.
const maxDepth = 16

// Plain reports whether every client library can decode a RESP2 reply. The reply must not nest
// deeper than maxDepth. No element may be an error, because some libraries take that for the whole
// reply.
func Plain(frame []byte) bool {
	var left [maxDepth]int // elements missing at each depth
	depth := 0
	for {
		line, rest, ok := bytes.Cut(frame, []byte(asciiCRLF))
		if !ok || len(line) == 0 {
			return false
		}
		frame = rest
		n := int64(0)
		switch line[0] {
		case errorMark:
			if depth > 0 {
				return false
			}
		case bulkMark, arrayMark:
			if n, ok = ParseInt(line[1:]); !ok || n > int64(len(frame)) {
				return false
			}
			if line[0] == bulkMark && n >= 0 {
				if int64(len(frame)) < n+2 {
					return false
				}
				frame = frame[n+2:]
			}
		}
		if line[0] == arrayMark && n > 0 {
			if depth == maxDepth {
				return false
			}
			left[depth] = int(n)
			depth++
			continue
		}
		for depth > 0 {
			if left[depth-1]--; left[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			return len(frame) == 0
		}
	}
}
