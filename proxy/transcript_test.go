package proxy_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dialogue is a conversation with a server as testdata/*.txt has it:
//
//	== a title: begins with empty servers and new connections
//	not embedded: why the server of that name is left out
//	a> SET k "with \x00 bytes"
//	a> GET k
//	a< +OK
//	a< $12
//	a< with \x00 bytes
//	b! PING\r\n
//	b< <closed>
//
// "a>" is a command of connection a, in redis-cli's quoting; several are sent
// together. "a!" is raw bytes. "a<" is one line of the replies to them, or of
// what comes unasked, without its line end; <int> is any integer there, <any>
// any bytes, and <closed> the end of the connection. Servers are redis, a plain
// one, and Leash before the embedded one, a standalone and a cluster.
type dialogue struct {
	title  string
	not    map[string]string // server: reason
	head   []string          // lines as they are, comments too
	rounds []round
}

// round is a group of commands sent in one write, and the replies to them.
type round struct {
	conn    string
	sent    []string // lines as they are
	raw     string
	replies []string
}

// parseTranscripts parses the text of a transcript file.
func parseTranscripts(text string) (all []*dialogue, err error) {
	var t *dialogue
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if title, ok := strings.CutPrefix(line, "== "); ok {
			t = &dialogue{title: title, not: map[string]string{}}
			all = append(all, t)
			continue
		}
		switch {
		case t == nil:
			err = fmt.Errorf("line %d: no title yet", i+1)
		case strings.HasPrefix(line, "not "):
			server, reason, _ := strings.Cut(line[4:], ": ")
			t.not[server] = reason
			t.head = append(t.head, line)
		case line == "" || line[0] == '#':
			if line != "" {
				t.head = append(t.head, line)
			}
		default:
			err = t.parse(line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return all, nil
}

func (t *dialogue) parse(line string) error {
	if len(line) < 2 || !strings.ContainsRune("><!", rune(line[1])) {
		return fmt.Errorf("%q does not begin with a>, a! or a<", line)
	}
	conn, text := line[:1], strings.TrimPrefix(line[2:], " ")
	n := len(t.rounds)
	if line[1] == '<' {
		if n == 0 || t.rounds[n-1].conn != conn {
			t.rounds = append(t.rounds, round{conn: conn})
			n++
		}
		t.rounds[n-1].replies = append(t.rounds[n-1].replies, text)
		return nil
	}
	if n == 0 || t.rounds[n-1].conn != conn || t.rounds[n-1].replies != nil {
		t.rounds = append(t.rounds, round{conn: conn})
		n++
	}
	r := &t.rounds[n-1]
	r.sent = append(r.sent, line)
	if line[1] == '!' {
		r.raw += unescape(text)
		return nil
	}
	r.raw += text + "\r\n"
	return nil
}

// split makes a round of each line whose replies are not known yet.
func (t *dialogue) split() {
	var rounds []round
	for _, r := range t.rounds {
		if r.replies != nil {
			rounds = append(rounds, r)
			continue
		}
		one := dialogue{}
		for _, line := range r.sent {
			one.rounds = nil
			if err := one.parse(line); err == nil {
				rounds = append(rounds, one.rounds...)
			}
		}
	}
	t.rounds = rounds
}

// format is the reverse of parseTranscripts.
func format(all []*dialogue) string {
	var b strings.Builder
	for i, t := range all {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "== %s\n", t.title)
		for _, line := range t.head {
			fmt.Fprintln(&b, line)
		}
		for _, r := range t.rounds {
			for _, line := range r.sent {
				fmt.Fprintln(&b, line)
			}
			for _, line := range r.replies {
				fmt.Fprintf(&b, "%s< %s\n", r.conn, line)
			}
		}
	}
	return b.String()
}

const closedLine = "<closed>"

// asLines writes replies as transcript lines.
func asLines(raw string) (lines []string) {
	if raw == "" {
		return nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(raw, "\r\n"), "\r\n") {
		lines = append(lines, escape(line))
	}
	return lines
}

func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == '\\':
			b.WriteString(`\\`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape reads \r, \n, \\ and \x00.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'r':
			b.WriteByte('\r')
		case 'n':
			b.WriteByte('\n')
		case 'x':
			n, _ := strconv.ParseUint(s[i+1:min(i+3, len(s))], 16, 8)
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// fits reports whether a line matches a line of the transcript.
func fits(want, got string) bool {
	if want == got {
		return true
	}
	pattern := regexp.QuoteMeta(want)
	pattern = strings.NewReplacer("<int>", `-?\d+`, "<any>", `.*`).Replace(pattern)
	ok, err := regexp.MatchString("^"+pattern+"$", got)
	return err == nil && ok
}

func allFit(want, got []string) bool { return slices.EqualFunc(want, got, fits) }

func TestTranscriptsAreReadAsWritten(t *testing.T) {
	const text = "== one\nnot embedded: no\n# why\na> SET k \"\\x00\"\na< +OK\nb! PING\\r\\n\nb< +PONG\nb< <closed>\n\n== two\na< :<int>\n"
	all, err := parseTranscripts(text)
	if err != nil || format(all) != text || len(all) != 2 || all[0].rounds[1].raw != "PING\r\n" {
		t.Errorf("got %q, %v", format(all), err)
	}
	if _, err := parseTranscripts("a> PING"); err == nil {
		t.Error("read one without a title")
	}
	if !fits("id=<int> <any>", "id=7 addr") || fits("id=<int>", "id=x") || fits("+OK", "+OKs") {
		t.Error("wildcards")
	}
	if got := asLines("$3\r\na\\\x00\r\n"); !slices.Equal(got, []string{"$3", `a\\\x00`}) ||
		unescape(got[1]) != "a\\\x00" {
		t.Errorf("lines %q", got)
	}
}

// transcriptFiles returns the paths of the transcripts.
func transcriptFiles(t *testing.T) (paths []string) {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".txt") {
			paths = append(paths, "testdata/"+e.Name())
		}
	}
	if len(paths) == 0 {
		t.Fatal("no transcripts")
	}
	return paths
}
