package commandinfo

import (
	"fmt"
	"strings"
	"testing"

	"leash/proxy/command"
	"leash/proxy/resp"
)

// node is a router to a node that answers every command with reply.
type node struct {
	reply string
	got   string // by the client
	asked int    // how often the node was asked
}

func (n *node) Answer(reply []byte) bool {
	n.got = string(reply)
	return true
}

func (n *node) Fail(message string) bool { return n.Answer(resp.AppendError(nil, message)) }

func (n *node) RelayAny(cmd resp.Command) bool {
	return n.RelayRewritten(cmd, func(reply []byte) []byte { return reply })
}

func (n *node) RelayRewritten(_ resp.Command, rewrite func([]byte) []byte) bool {
	n.asked++
	return n.Answer(rewrite([]byte(n.reply)))
}

var table = command.New(nil)

// ask runs a command of this family in front of a node that answers with reply.
func ask(t *testing.T, resp3 bool, reply, line string) *node {
	t.Helper()
	var args [][]byte
	for _, word := range strings.Fields(line) {
		args = append(args, []byte(word))
	}
	c, n := table.Lookup(args), &node{reply: reply}
	if c == nil {
		t.Fatalf("%s: not in the table", line)
	}
	run := Commands()[strings.ToUpper(c.Name)]
	if run == nil {
		t.Fatalf("%s: the family has no %s", line, c.Name)
	}
	if !run(View{Router: n, Table: table, RESP3: resp3}, c, resp.Command{Args: args}) {
		t.Fatalf("%s ends the session", line)
	}
	return n
}

// elements returns the elements of a reply.
func elements(t *testing.T, reply string) [][]byte {
	t.Helper()
	all, ok := resp.Elements([]byte(reply))
	if !ok {
		t.Fatalf("%q is no list", reply)
	}
	return all
}

// TestOwnCommandsFollow checks that Leash's commands follow those of Redis, and that a reply of
// another form, such as an error, stays as it is.
func TestOwnCommandsFollow(t *testing.T) {
	own, withSubs := len(command.AllOwn), 0
	for i := range command.AllOwn {
		withSubs += len(command.AllOwn[i].WithSubs())
	}
	if got := ask(t, false, ":200\r\n", "COMMAND COUNT").got; got != fmt.Sprintf(":%d\r\n", 200+own) {
		t.Errorf("COUNT: %q", got)
	}
	for line, want := range map[string]int{
		"COMMAND": 1 + own, "COMMAND INFO": 1 + own, "COMMAND LIST": 1 + withSubs, "COMMAND DOCS": 1 + 2*own,
		"COMMAND LIST FILTERBY MODULE x": 1,
	} {
		all := elements(t, ask(t, false, "*1\r\n$3\r\nget\r\n", line).got)
		if len(all) != want || string(all[0]) != "$3\r\nget\r\n" {
			t.Errorf("%s: %d elements, the first is %q; want %d", line, len(all), all[0], want)
		}
	}
	for _, line := range []string{
		"COMMAND", "COMMAND COUNT", "COMMAND INFO", "COMMAND LIST", "COMMAND DOCS", "COMMAND INFO lock.acquire",
	} {
		if got := ask(t, false, "-ERR no\r\n", line).got; got != "-ERR no\r\n" {
			t.Errorf("%s: an error becomes %q", line, got)
		}
	}
}

// TestDocsAreAMapInRESP3 checks the header of COMMAND DOCS in RESP3.
func TestDocsAreAMapInRESP3(t *testing.T) {
	got := ask(t, true, "%0\r\n", "COMMAND DOCS lock.acquire").got
	if !strings.HasPrefix(got, "%1\r\n$12\r\nlock.acquire\r\n%") {
		t.Errorf("got %.60q", got)
	}
}

// TestInfoOfNamedCommands checks that Leash fills in its own commands where Redis knows none.
func TestInfoOfNamedCommands(t *testing.T) {
	const redis = "*3\r\n$3\r\nget\r\n*-1\r\n*-1\r\n"
	all := elements(t, ask(t, false, redis, "COMMAND INFO get Lock.Acquire nosuch").got)
	if len(all) != 3 || string(all[0]) != "$3\r\nget\r\n" || string(all[2]) != "*-1\r\n" {
		t.Fatalf("got %q", all)
	}
	if !strings.Contains(string(all[1]), "lock.acquire") {
		t.Errorf("the lock command is %q", all[1])
	}
}

// TestListFilters checks which of Leash's commands the filters of COMMAND LIST let through.
func TestListFilters(t *testing.T) {
	for line, want := range map[string]string{
		"COMMAND LIST FILTERBY PATTERN lock.tt?": "*1\r\n$8\r\nlock.ttl\r\n",
		"COMMAND LIST FILTERBY PATTERN LOCK.TTL": "*1\r\n$8\r\nlock.ttl\r\n",
		"COMMAND LIST FILTERBY PATTERN none*":    "*0\r\n",
		"COMMAND LIST FILTERBY ACLCAT nosuch":    "*0\r\n",
	} {
		if got := ask(t, false, "*0\r\n", line).got; got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	if all := elements(t, ask(t, false, "*0\r\n", "COMMAND LIST FILTERBY ACLCAT write").got); len(all) == 0 {
		t.Error("no command of Leash is in the category write")
	}
}

// TestGetKeys checks that Leash finds the keys of its own commands, and asks Redis for all others.
func TestGetKeys(t *testing.T) {
	for line, want := range map[string]string{
		"COMMAND GETKEYS lock.ttl a":         "*1\r\n$1\r\na\r\n",
		"COMMAND GETKEYSANDFLAGS lock.ttl a": "*1\r\n*2\r\n$1\r\na\r\n*2\r\n+RO\r\n+access\r\n",
		"COMMAND GETKEYS lock.ttl":           "-" + msgArity + "\r\n",
		"COMMAND GETKEYS lock.list":          "-ERR The command has no key arguments\r\n",
	} {
		if n := ask(t, false, "*0\r\n", line); n.got != want || n.asked != 0 {
			t.Errorf("%s: got %q, asked %d times; want %q", line, n.got, n.asked, want)
		}
	}
	for _, line := range []string{"COMMAND GETKEYS get a", "COMMAND GETKEYS"} {
		if n := ask(t, false, "-ERR of Redis\r\n", line); n.asked != 1 || n.got != "-ERR of Redis\r\n" {
			t.Errorf("%s: got %q, asked %d times", line, n.got, n.asked)
		}
	}
}
