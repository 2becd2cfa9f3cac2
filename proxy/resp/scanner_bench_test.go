package resp

import (
	"bytes"
	"strings"
	"testing"
)

// BenchmarkScanner finds the ends in one read of a link, which has many replies of one kind.
func BenchmarkScanner(b *testing.B) {
	for name, frame := range map[string]string{
		"status":  OK,
		"integer": ":1234567\r\n",
		"bulk64":  "$64\r\n" + strings.Repeat("x", 64) + "\r\n",
		"bulk4k":  "$4096\r\n" + strings.Repeat("x", 4096) + "\r\n",
		"nil":     NilBulk,
		"array10": "*10\r\n" + strings.Repeat("$16\r\n0123456789abcdef\r\n", 10),
		"error":   "-MOVED 3999 127.0.0.1:6381\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			stream := bytes.Repeat([]byte(frame), max(1, 16<<10/len(frame)))
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			var s Scanner
			for b.Loop() {
				for rest := stream; len(rest) > 0; {
					n, _, err := s.Scan(rest)
					if err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
			}
		})
	}
}
