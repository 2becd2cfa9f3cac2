package usage

import (
	"strings"
	"testing"

	"leash/internal/redistest"
	"leash/proxy/resp"
)

// TestDocsHaveRedisForm checks that COMMAND DOCS describes arguments byte for byte as Redis
// describes a command with the same usage.
func TestDocsHaveRedisForm(t *testing.T) {
	redis, err := redistest.Dial(redistest.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	do := func(args ...string) string {
		reply, err := redis.Do(args...)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return reply
	}
	for _, row := range []struct {
		Command
		ours, theirs string // the name of an argument
		usage        string
	}{
		{
			Command{Name: "lmpop", Arguments: []Argument{Arg("", "numkeys"), Repeated(Arg("", "key")),
				OneOf("", Word("LEFT"), Word("RIGHT")), Optional(Arg("COUNT", "count"))}},
			"left_or_right", "where", "LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
		},
		{
			Command{Name: "sintercard", Arguments: []Argument{Arg("", "numkeys"), Repeated(Arg("", "key")),
				Optional(Arg("LIMIT", "count"))}},
			"count", "limit", "SINTERCARD numkeys key [key ...] [LIMIT count]",
		},
	} {
		if got := row.Command.Usage(); got != row.usage {
			t.Errorf("got the usage %q, want %q", got, row.usage)
		}
		for _, resp3 := range []bool{false, true} {
			do("HELLO", map[bool]string{false: "2", true: "3"}[resp3])
			theirs := do("COMMAND", "DOCS", row.Name)
			_, theirs, _ = strings.Cut(theirs, "$9\r\narguments\r\n")
			ours := string(appendArguments(nil, resp3, row.Arguments))
			ours = strings.Replace(ours, string(resp.AppendBulk(nil, row.ours)),
				string(resp.AppendBulk(nil, row.theirs)), 1)
			if ours != theirs {
				t.Errorf("%s: got %q, redis has %q", row.usage, ours, theirs)
			}
		}
	}
}
