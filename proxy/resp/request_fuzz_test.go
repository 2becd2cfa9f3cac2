package resp

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// FuzzInline checks that a line read as words, written with either kind of quotes, reads as the
// same words again.
func FuzzInline(f *testing.F) {
	for _, line := range []string{
		"", "SET a b", `SET "a\x00\n\"" 'it\'s'`, `a"b c"`, `'a`, `"\x4`, `"\xzz"`, `'a\\'`,
		`"a\\"`, "\x0b\x0c\r", `""`, `''''`, `"a"b`, "\x00 \xff",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		words, ok := splitArgs(nil, line)
		if !ok {
			return
		}
		if len(words) > len(line) {
			t.Fatalf("%q: %d words", line, len(words))
		}
		quotes := map[string]func([]byte) ([]byte, bool){"double": doubleQuoted, "single": singleQuoted}
		for name, quote := range quotes {
			var again []byte
			for _, word := range words {
				quoted, can := quote(word)
				if !can {
					quoted, _ = doubleQuoted(word)
				}
				again = append(append(again, quoted...), ' ')
			}
			got, ok := splitArgs(nil, again)
			if !ok || !slices.EqualFunc(got, words, bytes.Equal) {
				t.Errorf("%s quotes: %q reads as %q, %v, want %q", name, again, got, ok, words)
			}
		}
	})
}

// doubleQuoted writes a word so that each byte is an escape.
func doubleQuoted(word []byte) ([]byte, bool) {
	quoted := []byte{'"'}
	for _, c := range word {
		quoted = fmt.Appendf(quoted, `\x%02x`, c)
	}
	return append(quoted, '"'), true
}

// singleQuoted writes a word as it is, but for its quotes. A backslash before a quote or at the end
// cannot be written so.
func singleQuoted(word []byte) ([]byte, bool) {
	if bytes.Contains(word, []byte(`\'`)) || bytes.HasSuffix(word, []byte(`\`)) {
		return nil, false
	}
	return append(append([]byte{'\''}, bytes.ReplaceAll(word, []byte("'"), []byte(`\'`))...), '\''), true
}

// FuzzCommand checks that arguments which Leash writes for Redis are read back as they were.
func FuzzCommand(f *testing.F) {
	f.Add([]byte("SET"), []byte("k\r\n"), []byte(""))
	f.Add([]byte(""), []byte("$3\r\n"), []byte("*1\r\n\x00"))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		want := [][]byte{a, b, c}
		request := AppendCommand(nil, want...)
		cmd, ok := ParseRequest(request)
		if !ok || !slices.EqualFunc(cmd.Args, want, bytes.Equal) || !bytes.Equal(cmd.Raw, request) {
			t.Errorf("%q reads as %q, %v", request, cmd.Args, ok)
		}
		p := Parser{Limits: wide}
		for to := range len(request) {
			if _, n, err := p.Next(request[:to]); n != 0 || err != nil || p.Need() > len(request) {
				t.Fatalf("after %d of %d bytes: %d, %v, needs %d", to, len(request), n, err, p.Need())
			}
		}
	})
}
