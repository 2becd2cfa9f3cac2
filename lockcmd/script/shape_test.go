package script

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script/transport"
)

// TestRepliesOfOtherScriptsAreRefused checks that the reply to another script, as it comes when a
// reply was lost on the way, is not taken for an answer.
func TestRepliesOfOtherScriptsAreRefused(t *testing.T) {
	list := func(items ...any) any { return append([]any{}, items...) }
	text, n := "text", func(i int64) any { return i }
	for name, row := range map[string]struct {
		read          func(any) bool
		right, others []any
	}{
		"acquire": {
			func(reply any) bool { _, ok := acquireResult(reply); return ok },
			[]any{
				list(n(0), n(5)), list(n(0), n(-1), n(7)), []int64{1, 7, 100}, list(n(1), n(7), n(100), n(1)),
				list(n(2), text, text, text), list(n(3)), list(n(4)), list(n(5)), list(n(6), text), list(n(7)),
			},
			[]any{
				nil, n(1), n(0), text, list(), list(n(1)), list(n(1), n(7)), list(n(0)), list(n(8)), list(n(-1)),
				list(n(2)),
				list(n(3), n(1)), list(n(1), n(7), n(100), n(1), n(1)), []int64{}, list(text, n(7), n(5)),
				list(n(1), text, n(5)), list(n(2), n(7), text, text), list(n(6), n(1)), list(list(n(3))), list(nil),
			},
		},
		"handover": {
			func(reply any) bool { _, ok := handoverResult(reply); return ok },
			[]any{list(n(1)), list(n(0)), list(n(-1)), list(n(-2)), []int64{1, 7, 100}, list(n(1), n(7), n(100), n(2))},
			[]any{nil, n(1), text, list(), list(n(2)), list(n(-3)), list(n(1), n(7)), list(n(0), n(7), n(100)),
				[]int64{}},
		},
		"move": {
			func(reply any) bool { _, ok := moveResult(reply); return ok },
			[]any{list(n(-1)), list(n(1), n(7), n(100), n(1), n(0), text)},
			[]any{nil, n(-1), n(1), text, list(n(1)), list(n(0)), list(n(1), n(7), n(100), n(1), n(0)),
				list(n(-1), n(1)), list(n(1), n(7), n(100), n(1), n(0), n(0))},
		},
		"restore": {
			func(reply any) bool {
				_, ok := (&RestoreArgs{Holds: make([]RestoredHold, 2)}).results(reply)
				return ok
			},
			[]any{[]int64{1, 2}, list(n(0), n(-3)), list(n(-1), "L1 7 u:1 1 7 1 30000 w - - c"), list(text, n(-1))},
			[]any{nil, n(1), text, list(), []int64{}, list(n(3), n(1)), list(n(1), n(-4)), list(n(1)),
				list(n(1), list()), []int64{1, 2, 0}},
		},
		"acquire permits": {
			func(reply any) bool { _, ok := permitAcquireResult(reply, 1); return ok },
			[]any{[]int64{0, -1}, []int64{1, 0, 7, 100}, list(n(2), text, "", ""), list(n(6), text)},
			[]any{nil, n(1), text, list(), list(n(0)), list(n(1), n(0)), []int64{1, 0, 7, 100, 8, 100}, list(n(2)),
				list(n(3), n(1)), []int64{}},
		},
		"hand over a permit": {
			func(reply any) bool { _, ok := permitHandoverResult(reply, 1); return ok },
			[]any{[]int64{1}, []int64{-1}, []int64{1, 0, 0, 7, 100}},
			[]any{nil, n(1), text, list(), list(n(0)), []int64{1, 0, 0}, []int64{-1, 0, 0, 7, 100}, []int64{}},
		},
		"revoke a permit": {
			func(reply any) bool { _, ok := permitRevokeResult(reply); return ok },
			[]any{list(n(1)), []int64{-1}, list(n(-2), text, text, n(5)), list(n(-2), "", "", n(0))},
			[]any{nil, n(1), n(-1), text, list(n(0)), list(n(-2)), list(n(-2), text, text), list(n(1), n(1))},
		},
	} {
		for _, reply := range row.right {
			if !row.read(reply) {
				t.Errorf("%s: %v is refused", name, reply)
			}
		}
		for _, reply := range row.others {
			if row.read(reply) {
				t.Errorf("%s: %v is taken", name, reply)
			}
		}
	}
}

// TestRepliesOfAnotherShapeAreUnknown: the caller learns that the outcome is unknown, and the
// connection is closed, because the replies after it may belong to other commands.
func TestRepliesOfAnotherShapeAreUnknown(t *testing.T) {
	for name, row := range map[string]struct {
		reply string
		call  func(c *Client, until time.Time) (unknown bool, err error)
	}{
		"acquire": {":-1\r\n", func(c *Client, until time.Time) (bool, error) {
			_, unknown, err := c.Acquire(new(Acquisition), &AcquireArgs{Lock: Lock{Key: "k"}, Mode: Plain}, until)
			return unknown, err
		}},
		"release": {"*1\r\n:1\r\n", func(c *Client, until time.Time) (bool, error) {
			args := &ReleaseArgs{End: EndArgs{Mode: Plain, Hold: Ref{Lock: Lock{Key: "k"}}}}
			_, err := c.Release(args, until)
			return args.Unknown, err
		}},
		"move": {":-1\r\n", func(c *Client, until time.Time) (bool, error) {
			args := &MoveArgs{Mode: Plain, From: Ref{Lock: Lock{Key: "k"}}}
			_, err := c.Move(args, until)
			return args.Unknown, err
		}},
		"revoke": {"*1\r\n:1\r\n", func(c *Client, until time.Time) (bool, error) {
			args := &RevokeArgs{Mode: Plain, Hold: Ref{Lock: Lock{Key: "k"}}}
			_, err := c.Revoke(args, until)
			return args.Unknown, err
		}},
		"revoke a permit": {":1\r\n", func(c *Client, until time.Time) (bool, error) {
			args := &PermitRevokeArgs{Hold: Ref{Lock: Lock{Key: "k"}}}
			_, err := c.RevokePermit(args, until)
			return args.Unknown, err
		}},
		"restore": {"*2\r\n:1\r\n:1\r\n", func(c *Client, until time.Time) (bool, error) {
			_, err := c.Restore(&RestoreArgs{Mode: Plain, Holds: make([]RestoredHold, 1)}, until)
			return true, err
		}},
		"acquire permits": {"*2\r\n:1\r\n:1\r\n", func(c *Client, until time.Time) (bool, error) {
			_, unknown, err := c.AcquirePermits(&PermitRequest{Lock: Lock{Key: "k"}, Permits: []string{"p"}}, until)
			return unknown, err
		}},
		"hand over a permit": {"*2\r\n:1\r\n:1\r\n", func(c *Client, until time.Time) (bool, error) {
			r := &PermitRequest{Lock: Lock{Key: "k"}, Permits: []string{"p"}}
			_, unknown, err := c.HandOverPermit("q", Ref{Lock: r.Lock}, r, until)
			return unknown, err
		}},
		"handover": {":1\r\n", func(c *Client, until time.Time) (bool, error) {
			end := EndArgs{Mode: Plain, Hold: Ref{Lock: Lock{Key: "k"}}}
			_, unknown, err := c.Handover(&HandoverArgs{End: end, Mode: Plain}, until)
			return unknown, err
		}},
	} {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer rdb.Close()
		links := &fakeLinks{reply: row.reply, sent: true}
		c := New(links)
		c.Timeout, c.Log = time.Second, slog.New(slog.DiscardHandler)
		unknown, err := row.call(c, time.Now().Add(50*time.Millisecond))
		if !unknown || !errors.Is(err, transport.ErrUnknown) || len(links.dropped) == 0 {
			t.Errorf("%s: got %t, %v, and %d connections closed", name, unknown, err, len(links.dropped))
		}
	}
}
