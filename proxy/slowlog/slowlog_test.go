package slowlog

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"leash/proxy/resp"
)

func split(text string) (args [][]byte) {
	for word := range strings.FieldsSeq(text) {
		args = append(args, []byte(word))
	}
	return args
}

// TestArguments: what Redis 7 keeps of the same commands. Leash redacts the values of all settings.
func TestArguments(t *testing.T) {
	long, many := strings.Repeat("x", 128), strings.Repeat(" a", 31)
	for command, want := range map[string]string{
		"GET k":                                "GET k",
		"auth secret":                          "auth (redacted)",
		"AUTH ann secret":                      "AUTH (redacted) (redacted)",
		"HELLO 3 AUTH ann secret SETNAME x":    "HELLO 3 AUTH (redacted) (redacted) SETNAME x",
		"hello 3 auth ann":                     "hello 3 auth (redacted)",
		"ACL SETUSER ann on >secret":           "ACL SETUSER (redacted) (redacted) (redacted)",
		"ACL WHOAMI":                           "ACL WHOAMI",
		"CONFIG SET requirepass secret save 1": "CONFIG SET requirepass (redacted) save (redacted)",
		"SET " + long + " " + long + "yy":      "SET " + long + " " + long + "... (2 more bytes)",
		"DEL" + many:                           "DEL" + many,
		"DEL" + many + " b":                    "DEL" + strings.Repeat(" a", 30) + " ... (2 more arguments)",
	} {
		if got := strings.Join(Arguments(split(command)), " "); got != want {
			t.Errorf("%s: got %s", command, got)
		}
		if got := strings.Join(ArgumentsOf(resp.AppendCommand(nil, split(command)...)), " "); got != want {
			t.Errorf("%s as sent: got %s", command, got)
		}
	}
	for _, cut := range []string{"GET k\r\n", "*2\r\n$3\r\nGET\r\n$5\r\nk\r\n", "*2\r\n$3\r\nGET", "*1\r\n$9223372036854775806\r\nx\r\n"} {
		if got := ArgumentsOf([]byte(cut)); got != nil {
			t.Errorf("%q: got %q", cut, got)
		}
	}
}

// TestArgumentsOfManyIsCheap: the reader of a link logs a command, and others wait for it.
func TestArgumentsOfManyIsCheap(t *testing.T) {
	request := resp.AppendCommand(nil, bytes.Split(bytes.Repeat([]byte("a "), 100000), []byte(" "))...)
	if n := testing.AllocsPerRun(10, func() { ArgumentsOf(request) }); n > 2*maxArgs {
		t.Errorf("%v allocations", n)
	}
}

func TestLog(t *testing.T) {
	l := New(10*time.Millisecond, 3)
	if l.IsSlow(10*time.Millisecond-1) || !l.IsSlow(10*time.Millisecond) {
		t.Error("the limit is wrong")
	}
	ids := func(n int) (all []int64) {
		for _, e := range l.Newest(n) {
			all = append(all, e.ID)
		}
		return all
	}
	for range 5 {
		l.Add(Entry{})
	}
	if got := ids(2); !slices.Equal(got, []int64{4, 3}) || l.Len() != 3 {
		t.Errorf("the newest are %v of %d", got, l.Len())
	}
	l.Set(-1, 2)
	if got := ids(9); !slices.Equal(got, []int64{4, 3}) || l.IsSlow(time.Hour) {
		t.Errorf("after the change they are %v", got)
	}
	l.Reset()
	l.Add(Entry{})
	if got := ids(9); !slices.Equal(got, []int64{5}) {
		t.Errorf("after the reset they are %v", got)
	}
}
