package command

import (
	"testing"

	"leash/internal/redistest"
)

func words2(args ...string) (b [][]byte) {
	for _, a := range args {
		b = append(b, []byte(a))
	}
	return b
}

// TestFirstKeyAsRedis compares the first key of commands of every form with Redis, in both
// tables.
func TestFirstKeyAsRedis(t *testing.T) {
	redis := redistest.Start(t)
	reply, err := redis.Client().Do(t.Context(), "COMMAND").Slice()
	if err != nil {
		t.Fatal(err)
	}
	commands, err := Parse(reply)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]Table{"told": New(commands), "built-in": New(nil)}
	for _, args := range [][]string{
		{"GET", "k"}, {"set", "k", "v", "EX", "10"}, {"MSET", "a", "1", "b", "2"}, {"BITOP", "AND", "dest", "a", "b"},
		{"EVAL", "return 1", "2", "k1", "k2", "arg"}, {"EVALSHA_RO", "sha", "1", "k"}, {"FCALL", "f", "1", "k"},
		{"ZUNIONSTORE", "dest", "2", "a", "b"}, {"ZUNION", "2", "a", "b"}, {"SINTERCARD", "2", "a", "b"},
		{"LMPOP", "1", "k", "LEFT"},
		{"XREAD", "COUNT", "2", "STREAMS", "s1", "s2", "0", "0"},
		{"XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"},
		{"SORT", "k", "STORE", "d"}, {"GEORADIUS", "k", "1", "1", "1", "km", "STORE", "d"}, {"OBJECT", "ENCODING", "k"},
		{"object", "freq", "k"}, {"XGROUP", "CREATE", "s", "g", "0"}, {"XINFO", "STREAM", "s"},
		{"MEMORY", "USAGE", "k"},
		{"RENAME", "a", "b"}, {"LCS", "a", "b"}, {"COPY", "a", "b"}, {"RPOPLPUSH", "a", "b"},
		{"EVAL", "x", "1.5", "k"}, {"LMPOP", " 2two", "a", "b", "LEFT"}, {"ZINTER", "+1", "a"},
		{"EVAL", "x", "4294967297", "k"},
	} {
		keys, err := redis.Client().CommandGetKeys(t.Context(), anys(args)...).Result()
		if err != nil {
			t.Fatal(args, err)
		}
		for name, tab := range tables {
			c := tab.Lookup(words2(args...))
			if c == nil {
				t.Errorf("%s table: %q is unknown", name, args)
				continue
			}
			if i := c.FirstKey(words2(args...)); i == 0 || args[i] != keys[0] {
				t.Errorf("%s table: %q: first key at %d, redis says %q", name, args, i, keys)
			}
		}
	}
	for _, args := range [][]string{{"EVAL", "return 1", "0"}, {"EVAL", "return 1"}, {"EVAL", "x", "-1", "k"},
		{"EVAL", "x", "z", "k"}, {"XREAD", "STREAMS"}, {"PING"}, {"GET"}} {
		for name, tab := range tables {
			if i := tab.Lookup(words2(args...)).FirstKey(words2(args...)); i != 0 {
				t.Errorf("%s table: %q: first key at %d, want none", name, args, i)
			}
		}
	}
}

func anys(args []string) (a []any) {
	for _, s := range args {
		a = append(a, s)
	}
	return a
}

// TestBuiltinTableIsRedis7 compares the built-in table with the commands that Redis 7.0 reports.
func TestBuiltinTableIsRedis7(t *testing.T) {
	redis := redistest.Start(t)
	reply, err := redis.Client().Do(t.Context(), "COMMAND").Slice()
	if err != nil {
		t.Fatal(err)
	}
	told, err := Parse(reply)
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]*Command)
	for _, c := range builtin() {
		known[c.Name] = c
	}
	for _, c := range told {
		b := known[c.Name]
		if b == nil {
			t.Logf("%s is newer than the built-in table", c.Name)
			continue
		}
		if c.Arity != b.Arity || c.Blocking != b.Blocking || len(c.Keys) != len(b.Keys) {
			t.Errorf("%s: told %+v, built in %+v", c.Name, c, b)
			continue
		}
		for i := range c.Keys {
			if c.Keys[i] != b.Keys[i] {
				t.Errorf("%s: told %+v, built in %+v", c.Name, c.Keys[i], b.Keys[i])
			}
		}
	}
}

// TestBlockingCommandsOfRedis6 checks that blocking commands are known with Redis 6, which does
// not report them.
func TestBlockingCommandsOfRedis6(t *testing.T) {
	old := func(name string, flags ...any) any {
		return []any{name, int64(-3), append([]any{}, flags...), int64(1), int64(-2), int64(1)}
	}
	commands, err := Parse([]any{old("blpop", "write", "noscript"), old("mod.wait", "noscript"),
		old("mod.get", "readonly"), old("object", "readonly")})
	if err != nil {
		t.Fatal(err)
	}
	tab := New(commands)
	for name, blocking := range map[string]bool{"BLPOP": true, "MOD.WAIT": true, "MOD.GET": false} {
		if got := tab[name].Blocking; got != blocking {
			t.Errorf("%s: blocking %v, want %v", name, got, blocking)
		}
	}
	if c := tab.Lookup(words2("OBJECT", "ENCODING", "k")); c.Name != "object|encoding" ||
		c.FirstKey(words2("OBJECT", "ENCODING", "k")) != 2 {
		t.Errorf("OBJECT ENCODING: %+v", c)
	}
	if _, err := Parse([]any{"x"}); err == nil {
		t.Error("an invalid reply was accepted as a table")
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	tab := New(nil)
	get, object := words2("get", "k"), words2("Object", "eNcoding", "k")
	if n := testing.AllocsPerRun(100, func() {
		if tab.Lookup(get) == nil || tab.Lookup(object).Name != "object|encoding" {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	long := make([]byte, 1000)
	if c := tab.Lookup([][]byte{long}); c != nil {
		t.Errorf("found %+v", c)
	}
}
