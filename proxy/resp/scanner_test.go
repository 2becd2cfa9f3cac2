package resp

import (
	"bytes"
	"testing"
)

// frames are whole replies of every kind.
var frames = []string{
	"+OK\r\n", "-ERR no\r\n", ":12\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$0\r\n\r\n",
	"$5\r\na\r\nbc\r\n", "*2\r\n$1\r\na\r\n*2\r\n:1\r\n+x\r\n", "_\r\n", "#t\r\n", ",1.5\r\n",
	"(123456789012345678901234567890\r\n", "=5\r\ntxt:a\r\n", "!3\r\nERR\r\n",
	"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "~2\r\n:1\r\n:2\r\n", ">3\r\n+message\r\n+a\r\n+b\r\n",
	"|1\r\n+k\r\n+v\r\n:5\r\n", "*1\r\n|1\r\n+k\r\n*1\r\n+v\r\n$1\r\nx\r\n", "%0\r\n", "*1\r\n*1\r\n*1\r\n*0\r\n",
}

func TestScannerFindsEnds(t *testing.T) {
	for _, frame := range frames {
		stream := []byte(frame + "+next\r\n")
		var s Scanner
		if n, done, err := s.Scan(stream); n != len(frame) || !done || err != nil {
			t.Errorf("%q at once: %d %v %v", frame, n, done, err)
		}
		s = Scanner{}
		for i := range frame {
			n, done, err := s.Scan(stream[i : i+1])
			if n != 1 || err != nil || done != (i == len(frame)-1) {
				t.Fatalf("%q byte %d: %d %v %v", frame, i, n, done, err)
			}
		}
	}
}

func TestScannerRefusesInvalidReplies(t *testing.T) {
	for _, bad := range []string{
		":\n", "+OK\n", "+\n", "-ERR no\n", ":1\n", ":\r\n", ":1a\r\n", ":1 \r\n", ":+1\r\n", ":1\rx",
		":9223372036854775808\r\n", ":-9223372036854775809\r\n",
		":99999999999999999999\r\n", "$3\r\nabcde", "$3\r\nabc\n\n", "$3\r\nabc\r\r", "$0\r\nab", "$-2\r\n",
		"*-5\r\n", "$9999999999999\r\n", "*99999999999\r\n",
		"*?\r\n", "$?\r\n", "#x\r\n", "#\r\n", "_x\r\n", "_\n", "=3\r\nabc\r\n", ">0\r\n", "*1\r\n>1\r\n",
		"~-1\r\n", ",1\n", "(1\n",
		"OK\r\n", "$a\r\n", "$-2\r\n", "*\r\n", "$1\rx", "$1234567890123\r\n", "%-1\r\n", "$--1\r\n", "\r\n",
	} {
		var s Scanner
		if n, done, err := s.Scan([]byte(bad)); err == nil {
			t.Errorf("%q: %d %v, want an error", bad, n, done)
		}
		s = Scanner{}
		var err error
		for i := 0; i < len(bad) && err == nil; i++ {
			_, _, err = s.Scan([]byte(bad[i : i+1]))
		}
		if err == nil {
			t.Errorf("%q byte by byte: want an error", bad)
		}
	}
}

func TestScannerOfRESP2RefusesTheTypesOfRESP3(t *testing.T) {
	for _, frame := range []string{"_\r\n", "#t\r\n", ",1.5\r\n", "(1\r\n", "=5\r\ntxt:a\r\n", "!3\r\nERR\r\n",
		"%1\r\n+a\r\n:1\r\n", "~1\r\n:1\r\n", ">1\r\n+a\r\n", "|1\r\n+k\r\n+v\r\n:5\r\n", "*1\r\n_\r\n"} {
		s := Scanner{RESP2: true}
		if n, done, err := s.Scan([]byte(frame)); err == nil {
			t.Errorf("%q: %d %v, want an error", frame, n, done)
		}
	}
}

// TestScannerEndsCountsThatOverflow checks that an announced count is added to the missing values
// without an overflow.
func TestScannerEndsCountsThatOverflow(t *testing.T) {
	var s Scanner
	header := []byte("*4294967295\r\n")
	for range 1000 {
		if _, done, err := s.Scan(header); err != nil {
			return
		} else if done {
			t.Fatal("a reply that lacks four billion values is whole")
		}
	}
	t.Error("a thousand arrays of four billion each: want an error")
}

func FuzzScanner(f *testing.F) {
	for _, frame := range frames {
		f.Add([]byte(frame), uint8(2))
	}
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		ends := func(step int) (at []int, failed bool) {
			var s Scanner
			for from := 0; from < len(stream); {
				to := min(from+step, len(stream))
				n, done, err := s.Scan(stream[from:to])
				if err != nil {
					return at, true
				}
				if n <= 0 || n > to-from {
					t.Fatalf("took %d of %d", n, to-from)
				}
				from += n
				if done {
					at = append(at, from)
				} else if from != to {
					t.Fatalf("stopped at %d of %d without an end", from, to)
				}
			}
			return at, false
		}
		want, failed := ends(len(stream) + 1)
		got, failedToo := ends(int(step)%7 + 1)
		if failed != failedToo || len(got) != len(want) {
			t.Fatalf("pieces: %v %v, at once: %v %v", got, failedToo, want, failed)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("pieces: %v, at once: %v", got, want)
			}
		}
	})
}

func TestScannerDoesNotAllocate(t *testing.T) {
	stream := bytes.Repeat([]byte("*2\r\n$3\r\nabc\r\n:1\r\n"), 4)
	var s Scanner
	if n := testing.AllocsPerRun(100, func() {
		for rest := stream; len(rest) > 0; {
			n, _, err := s.Scan(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestAppend(t *testing.T) {
	b := AppendError(nil, "ERR a\r\nb\r\n")
	b = AppendStatus(b, "OK")
	b = AppendInt(b, -3)
	b = AppendArray(b, 1)
	b = AppendBulk(b, "x\r\n")
	want := "-ERR a  b\r\n+OK\r\n:-3\r\n*1\r\n$3\r\nx\r\n\r\n"
	if string(b) != want {
		t.Errorf("got %q, want %q", b, want)
	}
}
