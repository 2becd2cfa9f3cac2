package resp

import "bytes"

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
