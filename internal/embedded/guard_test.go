package embedded

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// bad is a command at which miniredis panics. If this test finds that it no longer does, use
// another one. If there is none left, remove the guard.
var bad = []any{"KEYS", "\x00\xff"}

// mustServe checks that the server answers, to old connections and to new ones.
func mustServe(t *testing.T, rdb *redis.Client) {
	t.Helper()
	if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatalf("SET afterwards: %v", err)
	}
	if got := rdb.Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("GET afterwards: got %q, want v", got)
	}
}

func TestBadCommandIsAnError(t *testing.T) {
	_, rdb := start(t)
	for range 3 {
		if err := rdb.Do(t.Context(), bad...).Err(); err == nil || err.Error() != msgFailed {
			t.Errorf("got %v, want %s", err, msgFailed)
		}
		mustServe(t, rdb)
	}
}

func TestBadCommandInScript(t *testing.T) {
	_, rdb := start(t)
	for _, script := range []string{
		`return redis.call('KEYS', ARGV[1])`,
		`return redis.pcall('KEYS', ARGV[1])`,
	} {
		err := rdb.Eval(t.Context(), script, nil, bad[1]).Err()
		if err == nil || !strings.HasPrefix(err.Error(), "ERR") {
			t.Errorf("got %v, want an error", err)
		}
		mustServe(t, rdb)
	}
}

func TestBadCommandInTransaction(t *testing.T) {
	_, rdb := start(t)
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Set(t.Context(), "a", "b", 0)
		p.Do(t.Context(), bad...)
		return nil
	})
	if err == nil {
		t.Error("no error")
	}
	mustServe(t, rdb)
}

// TestGuardIsTransparent: names in lower case, unknown names, transactions and scripts work.
func TestGuardIsTransparent(t *testing.T) {
	_, rdb := start(t)
	ctx := t.Context()
	if got, err := rdb.Do(ctx, "echo", "x").Text(); got != "x" || err != nil {
		t.Errorf("echo: got %q, %v", got, err)
	}
	if err := rdb.Do(ctx, "noSuch").Err(); err == nil || !strings.Contains(err.Error(), "`noSuch`") {
		t.Errorf("unknown: got %v", err)
	}
	cmds, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "n")
		p.Incr(ctx, "n")
		return nil
	})
	if err != nil || cmds[1].(*redis.IntCmd).Val() != 2 {
		t.Errorf("transaction: got %v, %v", cmds, err)
	}
	if n, err := rdb.Eval(ctx, `return redis.call('incr', KEYS[1])`, []string{"n"}).Int(); n != 3 || err != nil {
		t.Errorf("script: got %d, %v", n, err)
	}
}

// TestCommandDocs: redis-cli sends COMMAND DOCS first, and continues after an error.
func TestCommandDocs(t *testing.T) {
	_, rdb := start(t)
	if err := rdb.Do(t.Context(), "COMMAND", "DOCS").Err(); err == nil || !strings.Contains(err.Error(), "unknown subcommand") {
		t.Errorf("got %v", err)
	}
	if list, err := rdb.Do(t.Context(), "COMMAND").Slice(); err != nil || len(list) == 0 {
		t.Errorf("COMMAND: %d %v", len(list), err)
	}
}
