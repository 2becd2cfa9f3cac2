package resp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

var wide = Limits{MaxBulk: 512 << 20, MaxArgs: 1 << 20}

// feed gives the stream to a parser in pieces that end where cut is true. It returns the result as
// text: one line per command, then the error, if any.
func feed(limits Limits, stream []byte, cut func(i int) bool) string {
	p := Parser{Limits: limits}
	var out strings.Builder
	from := 0
	for to := 1; to <= len(stream); to++ {
		if to < len(stream) && !cut(to) {
			continue
		}
		for {
			cmd, n, err := p.Next(stream[from:to:to])
			if err != nil {
				fmt.Fprintf(&out, "error %v\n", err)
				return out.String()
			}
			if n == 0 {
				break
			}
			fmt.Fprintf(&out, "%q raw %q\n", cmd.Args, cmd.Raw)
			from += n
		}
	}
	return out.String()
}

func whole(int) bool    { return false }
func bytewise(int) bool { return true }

func TestParserCommands(t *testing.T) {
	for _, tc := range []struct{ name, stream, want string }{
		{"array", "*2\r\n$3\r\nGET\r\n$1\r\na\r\n", `["GET" "a"] raw "*2\r\n$3\r\nGET\r\n$1\r\na\r\n"`},
		{"binary", "*2\r\n$3\r\nGET\r\n$3\r\n\r\n\x00\r\n",
			`["GET" "\r\n\x00"] raw "*2\r\n$3\r\nGET\r\n$3\r\n\r\n\x00\r\n"`},
		{"empty argument", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", `["ECHO" ""] raw "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"`},
		{"empty and null arrays are ignored", "*0\r\n*-1\r\n*-7\r\n", "[] raw \"\"\n[] raw \"\"\n[] raw \"\""},
		{"inline", "SET a  b\r\n", `["SET" "a" "b"] raw "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n"`},
		{"inline with LF only", "PING\n", `["PING"] raw "*1\r\n$4\r\nPING\r\n"`},
		{"empty inline is ignored", "\r\n \t\n", "[] raw \"\"\n[] raw \"\""},
		{"quotes", `ECHO "a b\x41\n\"" 'it\'s'` + "\n",
			`["ECHO" "a bA\n\"" "it's"] raw "*3\r\n$4\r\nECHO\r\n$6\r\na bA\n\"\r\n$4\r\nit's\r\n"`},
		{"quote in a word", `SET a"b c"` + "\n", `["SET" "ab c"] raw "*2\r\n$3\r\nSET\r\n$4\r\nab c\r\n"`},
		{"irregular line ends are written anew", "*1\rX$4\r_PINGab", `["PING"] raw "*1\r\n$4\r\nPING\r\n"`},
		{"incomplete", "*1\r\n$4\r\nPING\r", ""},
		{"unbalanced quotes", "ECHO \"a\n", "error Protocol error: unbalanced quotes in request"},
		{"text behind a quote", "ECHO \"a\"b\n", "error Protocol error: unbalanced quotes in request"},
		{"multibulk length", "*a\r\n", "error Protocol error: invalid multibulk length"},
		{"huge multibulk length", "*2147483648\r\n", "error Protocol error: invalid multibulk length"},
		{"more arguments than we take", "*2147483647\r\n",
			"error Protocol error: more arguments than --max-args allows"},
		{"overflow", "*1\r\n$9223372036854775806\r\n", "error Protocol error: invalid bulk length"},
		{"wrapped", "*1\r\n$18446744073709551619\r\n", "error Protocol error: invalid bulk length"},
		{"negative bulk", "*2\r\n$3\r\nGET\r\n$-7\r\n", "error Protocol error: invalid bulk length"},
		{"leading zero", "*1\r\n$03\r\n", "error Protocol error: invalid bulk length"},
		{"minus zero", "*1\r\n$-0\r\n", "error Protocol error: invalid bulk length"},
		{"no dollar", "*1\r\nPING\r\n", "error Protocol error: expected '$', got 'P'"},
		{"no dollar, checked with the line end only", "*1\r\nPING", ""},
		{"NUL hides the line end", "*1\x00\r\n$4\r\nPING\r\n", ""},
		{"endless inline", strings.Repeat("a", maxLine+1), "error Protocol error: too big inline request"},
		{"endless inline behind NUL", "\x00" + strings.Repeat("\n", maxLine),
			"error Protocol error: too big inline request"},
		{"endless count", "*" + strings.Repeat("1", maxLine), "error Protocol error: too big mbulk count string"},
		{"endless length", "*1\r\n$" + strings.Repeat("1", maxLine), "error Protocol error: too big bulk count string"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := tc.want
			if want != "" {
				want += "\n"
			}
			if got := feed(wide, []byte(tc.stream), whole); got != want {
				t.Errorf("at once: got %s, want %s", got, want)
			}
			if got := feed(wide, []byte(tc.stream), bytewise); got != want {
				t.Errorf("byte by byte: got %s, want %s", got, want)
			}
		})
	}
}

func TestParserLimitsBeforeAuthentication(t *testing.T) {
	limits := wide
	limits.Unauthenticated = true
	for stream, want := range map[string]string{
		"*11\r\n":                  "error Protocol error: unauthenticated multibulk length\n",
		"*1\r\n$16385\r\n":         "error Protocol error: unauthenticated bulk length\n",
		"*10\r\n$16384\r\n":        "",
		"*1\r\n$4\r\nPING\r\n":     "[\"PING\"] raw \"*1\\r\\n$4\\r\\nPING\\r\\n\"\n",
		"*2\r\n$4\r\nAUTH\r\n$1\r": "",
	} {
		if got := feed(limits, []byte(stream), whole); got != want {
			t.Errorf("%q: got %q, want %q", stream, got, want)
		}
	}
}

func TestParserTakesTheLargestBulkAndNoMore(t *testing.T) {
	limits := Limits{MaxBulk: 5, MaxArgs: 2}
	if got := feed(limits, []byte("*1\r\n$5\r\nhello\r\n*1\r\n$6\r\n"),
		bytewise); got != "[\"hello\"] raw \"*1\\r\\n$5\\r\\nhello\\r\\n\"\nerror Protocol error: invalid bulk length\n" {
		t.Error(got)
	}
	if got := feed(limits, []byte("a b c\n"), whole); !strings.Contains(got, "--max-args") {
		t.Error(got)
	}
}

// TestParserLinear checks that the parser takes linear time for a large value that arrives byte by
// byte. Quadratic time would be minutes.
func TestParserLinear(t *testing.T) {
	value := bytes.Repeat([]byte("x"), 2<<20)
	stream := AppendCommand(nil, []byte("SET"), []byte("k"), value)
	p := Parser{Limits: wide}
	for to := 1; to < len(stream); to++ {
		if _, n, err := p.Next(stream[:to]); n != 0 || err != nil {
			t.Fatal(to, n, err)
		}
	}
	cmd, n, err := p.Next(stream)
	if err != nil || n != len(stream) || !bytes.Equal(cmd.Args[2], value) {
		t.Fatal(n, err)
	}
}

func TestParserNeed(t *testing.T) {
	p := Parser{Limits: wide}
	if _, n, _ := p.Next([]byte("*2\r\n$3\r\nGET\r\n$1000\r\nab")); n != 0 || p.Need() != 4+9+7+1000+2 {
		t.Errorf("need %d", p.Need())
	}
}

func TestParserAllocations(t *testing.T) {
	stream := AppendCommand(nil, "SET", "key", "value")
	p := Parser{Limits: wide}
	if n := testing.AllocsPerRun(1000, func() {
		if _, n, err := p.Next(stream); n == 0 || err != nil {
			t.Fatal(n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a command, want 0", n)
	}
}

func FuzzParser(f *testing.F) {
	for _, s := range []string{"*1\r\n$4\r\nPING\r\n", "PING \"a\\x41\" 'b'\r\n", "*0\r\n*-1\r\n", "*1\x00\r\n",
		"*2\r\n$1\r\na\r\n$0\r\n\r\nGET a\n"} {
		f.Add([]byte(s), uint64(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, cuts uint64) {
		limits := Limits{MaxBulk: 1 << 16, MaxArgs: 64}
		want := feed(limits, stream, whole)
		check := func(name string, cut func(int) bool) {
			if got := feed(limits, stream, cut); got != want && !lateLineEnd(stream) {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
		check("byte by byte", bytewise)
		check("random", func(i int) bool { return cuts>>(i%64)&1 == 1 })
		for at := 1; at < min(len(stream), 100); at++ {
			check(fmt.Sprintf("cut at %d", at), func(i int) bool { return i == at })
		}
		// The command as sent to Redis must mean the same to any parser.
		p := Parser{Limits: limits}
		for rest := stream; ; {
			cmd, n, err := p.Next(rest)
			if n == 0 || err != nil {
				break
			}
			rest = rest[n:]
			if len(cmd.Args) == 0 {
				continue
			}
			if again := AppendCommand(nil, cmd.Args...); !bytes.Equal(again, cmd.Raw) {
				t.Errorf("raw %q is not %q", cmd.Raw, again)
			}
		}
	})
}

// lateLineEnd reports whether the parser may take or refuse the stream, depending on its pieces. A
// line longer than maxLine is accepted if its end has arrived with the rest, as in Redis.
func lateLineEnd(stream []byte) bool { return len(stream) > maxLine }

func TestParseInt(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "7": 7, "-1": -1, "10": 10, "9223372036854775807": 1<<63 - 1,
		"-9223372036854775808": -1 << 63} {
		if got, ok := ParseInt([]byte(in)); !ok || got != want {
			t.Errorf("%q: got %d %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "-", "+1", "01", "-0", " 1", "1 ", "a", "9223372036854775808",
		"-9223372036854775809", "18446744073709551619", "99999999999999999999"} {
		if got, ok := ParseInt([]byte(in)); ok {
			t.Errorf("%q: got %d, want none", in, got)
		}
	}
}

func TestProtocolErrorIsAnError(t *testing.T) {
	var e ProtocolError
	if !errors.As(error(ProtocolError("x")), &e) {
		t.Fatal("not matched")
	}
}
