package faultproxy

import (
	"slices"
	"strings"
	"testing"
)

// frames returns the frames of b when it comes in pieces of size bytes, and whether the scanner
// refused it.
func frames(b string, size int) (got []string, failed bool) {
	var s replyScanner
	frame := ""
	for piece := range slices.Chunk([]byte(b), size) {
		for len(piece) > 0 {
			n, whole, err := s.next(piece)
			if err != nil {
				return got, true
			}
			frame += string(piece[:n])
			piece = piece[n:]
			if whole {
				got = append(got, frame)
				frame = ""
			}
		}
	}
	return got, false
}

func TestReplyFrames(t *testing.T) {
	want := []string{
		"+OK\r\n", "-ERR " + strings.Repeat("long ", 40) + "\r\n", ":-1\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "$4\r\n\r\n\r\n\r\n",
		"*0\r\n", "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", "%1\r\n+k\r\n*2\r\n:1\r\n_\r\n", "~1\r\n#t\r\n", ",1.5\r\n", "(12345678901234567890\r\n",
		"=7\r\ntxt:abc\r\n", "!5\r\nERR x\r\n", ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n", "|1\r\n+ttl\r\n:3\r\n%0\r\n", "_\r\n",
	}
	all := strings.Join(want, "")
	for size := 1; size <= len(all); size++ {
		if got, failed := frames(all, size); failed || !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: got %q, %v; want %q", size, got, failed, want)
		}
	}
}

func TestFrameKind(t *testing.T) {
	message2 := "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n"
	for _, row := range []struct {
		frame      string
		subscribed bool
		want       frameKind
	}{
		{"+OK\r\n", true, answer},
		{message2, false, answer},
		{message2, true, message},
		{"*2\r\n$4\r\npong\r\n$0\r\n\r\n", true, answer},
		{"*3\r\n$12\r\npunsubscribe\r\n$1\r\na\r\n:0\r\n", true, confirmation},
		{">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", false, confirmation},
		{">2\r\n$10\r\ninvalidate\r\n_\r\n", false, message},
	} {
		var s replyScanner
		if n, whole, err := s.next([]byte(row.frame)); n != len(row.frame) || !whole || err != nil {
			t.Fatalf("%q: got %d, %v, %v", row.frame, n, whole, err)
		}
		if got := s.frame(row.subscribed); got != row.want {
			t.Errorf("%q, subscribed %v: got %v, want %v", row.frame, row.subscribed, got, row.want)
		}
	}
}

func TestArgs(t *testing.T) {
	for request, want := range map[string][]string{
		"*2\r\n$3\r\nGET\r\n$3\r\nk\r\n\r\n": {"GET", "k\r\n"},
		"*0\r\n":                             nil,
		"\r\n":                               nil,
		" PING  x \r\n":                      {"PING", "x"},
	} {
		var got []string
		for _, arg := range Args([]byte(request)) {
			got = append(got, string(arg))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", request, got, want)
		}
	}
}

func FuzzReplyScanner(f *testing.F) {
	f.Add("*2\r\n$1\r\na\r\n:1\r\n+OK\r\n", 3)
	f.Add("%-1\r\n*-9\r\n$00\r\n\r\n", 1)
	f.Add("|1\r\n+a\r\n+b\r\n_\r\n", 2)
	f.Fuzz(func(t *testing.T, b string, size int) {
		whole, failed := frames(b, max(1, len(b)))
		parts, failedToo := frames(b, min(max(1, size), 1<<16))
		if failed != failedToo || !slices.Equal(whole, parts) {
			t.Fatalf("got %q, %v in parts; want %q, %v", parts, failedToo, whole, failed)
		}
	})
}

// commands returns the commands of b when it comes in pieces of size bytes, what is left, and
// whether the scanner refused it.
func commands(b string, size int) (got []string, rest string, failed bool) {
	var s requestScanner
	var buf []byte
	for piece := range slices.Chunk([]byte(b), size) {
		buf = append(buf, piece...)
		for len(buf) > 0 {
			n, err := s.next(buf)
			if err != nil {
				return got, "", true
			}
			if n == 0 {
				break
			}
			got = append(got, string(buf[:n]))
			buf = buf[n:]
		}
	}
	return got, string(buf), false
}

func FuzzRequestScanner(f *testing.F) {
	f.Add("*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\nPING\r\n*0\r\n", 3)
	f.Add("*1\r\n$9223372036854775806\r\n", 1)
	f.Add("*-1\r\n\r\n*1\r\n:1\r\n", 2)
	f.Fuzz(func(t *testing.T, b string, size int) {
		whole, rest, failed := commands(b, max(1, len(b)))
		parts, restToo, failedToo := commands(b, min(max(1, size), 1<<16))
		if failed != failedToo || rest != restToo || !slices.Equal(whole, parts) {
			t.Fatalf("got %q, %q, %v in parts; want %q, %q, %v", parts, restToo, failedToo, whole, rest, failed)
		}
		if !failed && strings.Join(whole, "")+rest != b {
			t.Fatal("bytes were lost")
		}
	})
}
