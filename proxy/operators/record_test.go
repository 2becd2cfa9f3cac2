package operators

import (
	"errors"
	"testing"
	"time"
)

// TestRecord checks how each type of value is written, in both protocols.
func TestRecord(t *testing.T) {
	pairs := []any{"a", "x y", "b", []string{"1", ""}, "c", 7, "d", int64(-1), "e", 1500 * time.Millisecond, "f", true,
		"g", false, "h", errors.New("no")}
	values := "$1\r\na\r\n$3\r\nx y\r\n$1\r\nb\r\n*2\r\n$1\r\n1\r\n$0\r\n\r\n$1\r\nc\r\n:7\r\n$1\r\nd\r\n:-1\r\n" +
		"$1\r\ne\r\n:1500\r\n$1\r\nf\r\n:1\r\n$1\r\ng\r\n:0\r\n$1\r\nh\r\n$2\r\nno\r\n"
	for resp3, start := range map[bool]string{false: "*16\r\n", true: "%8\r\n"} {
		if got := string(record([]byte("before"), resp3, pairs...)); got != "before"+start+values {
			t.Errorf("RESP3 %v: got %q", resp3, got)
		}
	}
	if got := string(record(nil, false)); got != "*0\r\n" {
		t.Errorf("without pairs: got %q", got)
	}
}
