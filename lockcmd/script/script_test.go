package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestScriptReplyOfAnotherShapeIsUnknown: The reply of another script, or of no script, is neither
// a grant nor a refusal. The outcome is unknown.
func TestScriptReplyOfAnotherShapeIsUnknown(t *testing.T) {
	for name, replies := range map[string]struct{ good, bad []string }{
		"acquire": {
			good: []string{"*2\r\n:0\r\n:500\r\n", "*3\r\n:1\r\n:77\r\n:500\r\n",
				"*4\r\n:2\r\n$1\r\n7\r\n$1\r\nc\r\n$1\r\n-\r\n", "*1\r\n:3\r\n", ":4\r\n", "*2\r\n:6\r\n$2\r\nab\r\n"},
			bad: []string{"+OK\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "*2\r\n:1\r\n:77\r\n", "*1\r\n:2\r\n",
				"*3\r\n$1\r\n1\r\n:7\r\n:5\r\n", "*3\r\n:1\r\n$1\r\n7\r\n:5\r\n", "*1\r\n:6\r\n", "*1\r\n*1\r\n:1\r\n"},
		},
		"release": {good: []string{":1\r\n", ":-1\r\n", "*3\r\n:1\r\n:0\r\n:-1\r\n"},
			bad: []string{"+OK\r\n", "$1\r\n1\r\n", "*0\r\n", "*1\r\n$1\r\n1\r\n"}},
		"renew": {good: []string{"*2\r\n:1\r\n:0\r\n"},
			bad: []string{":1\r\n", "+OK\r\n", "*2\r\n:1\r\n$1\r\n1\r\n"}},
		"restore": {good: []string{"*2\r\n:1\r\n$2\r\nL1\r\n"},
			bad: []string{":1\r\n", "$2\r\nL1\r\n", "*1\r\n*0\r\n"}},
		"inspect": {good: []string{"*4\r\n:-2\r\n:1\r\n:2\r\n:0\r\n"},
			bad: []string{":0\r\n", "*3\r\n:-2\r\n:1\r\n:2\r\n"}},
		"move": {good: []string{"*1\r\n:-1\r\n", "*6\r\n:1\r\n:7\r\n:5\r\n:1\r\n:0\r\n$2\r\nL1\r\n"},
			bad: []string{"*2\r\n:1\r\n:7\r\n", "*6\r\n:1\r\n:7\r\n:5\r\n:1\r\n:0\r\n:0\r\n"}},
		"semaphore_info": {good: []string{"*2\r\n:3\r\n:0\r\n"}, bad: []string{":3\r\n", "*1\r\n:3\r\n"}},
	} {
		for _, text := range replies.good {
			if reply, err := withDirectPath(name, text); err != nil {
				t.Errorf("%s %q: %v %v, want it taken", name, text, reply, err)
			}
		}
		for _, text := range replies.bad {
			reply, err := withDirectPath(name, text)
			if err == nil || Judge(err) != Ambiguous {
				t.Errorf("%s %q: %v %v, want an outcome that is unknown", name, text, reply, err)
			}
		}
	}
}

// withDirectPath returns the result of a script of that name when text is its reply on the direct
// path.
func withDirectPath(name, text string) (reply any, err error) {
	c := &Client{Links: &fakeLinks{reply: text, sent: true}}
	reply, err, _ = c.runDirect(time.Now().Add(time.Minute), nil, &scriptCall{Script: Load(name), Keys: []string{"k"}})
	return reply, err
}

// TestNullIsNoScriptReply: Go-redis reports a null reply as an error. It is not an error reply of
// Redis.
func TestNullIsNoScriptReply(t *testing.T) {
	for name := range shapes {
		reply, err := Load(name).Run(t.Context(), nullRedis{}, []string{"k"}, nil)
		if reply != nil || !errors.Is(err, ErrShape) || Judge(err) != Ambiguous {
			t.Errorf("%s: %v, %v, want an outcome that is unknown", name, reply, err)
		}
	}
}

// nullRedis answers every command with a null.
type nullRedis struct{}

func (nullRedis) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.SetErr(redis.Nil)
	return redis.Nil
}

// TestScriptReplyOfAnotherShapeClosesItsConnection: After such a reply, later replies on the
// connection may belong to other commands. The connection is closed.
func TestScriptReplyOfAnotherShapeClosesItsConnection(t *testing.T) {
	links := &fakeLinks{reply: "+QUEUED\r\n", sent: true}
	c := &Client{Links: links}
	_, err, done := c.runDirect(time.Now().Add(time.Minute), nil,
		&scriptCall{Script: ReleaseScript, DB: 3, Keys: []string{"k"}})
	if !errors.Is(err, ErrShape) || !done {
		t.Errorf("error %v, done %v: want errShape, and that it is not sent again on the way", err, done)
	}
	if want := fmt.Sprint("[3 ", SlotOf("k"), "]"); fmt.Sprint(links.dropped) != want {
		t.Errorf("told %v, want %v", links.dropped, want)
	}
}

// TestDecodeAllocatesNoMoreThanReceived: Neither nesting nor announced lengths make decode use more
// memory than it has received.
func TestDecodeAllocatesNoMoreThanReceived(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("*1\r\n", 1<<20) + ":1\r\n", strings.Repeat("*100000\r\n", 100), "*2147483647\r\n:1\r\n",
		"$9999999999999\r\n",
		"$9223372036854775807\r\nab\r\n", "*-2\r\n", "$-2\r\n", ":\r\n", ":99999999999999999999\r\n", "*1\r\n",
		"$1\r\nab\r\n", "", "\r\n", "%1\r\n:1\r\n:2\r\n",
	} {
		if reply, rest, err := decode(text); err == nil {
			t.Errorf("%.20q: %v, %q, want an error", text, reply, rest)
		}
	}
}

func TestHugeNumbersDoNotOverflow(t *testing.T) {
	if d := Millis(1<<63 - 1); d <= 0 {
		t.Errorf("%v, want a long time", d)
	}
	if d := Millis(-1 << 63); d >= 0 {
		t.Errorf("%v, want a time that is over", d)
	}
}

func FuzzScriptReply(f *testing.F) {
	for _, text := range []string{":1\r\n", "*3\r\n:1\r\n:77\r\n:500\r\n", "*2\r\n:6\r\n$2\r\nab\r\n", "$-1\r\n",
		"-ERR no\r\n", "+OK\r\n", ":\n", "$9999999999999\r\n", "*1\r\n*1\r\n*1\r\n:1\r\n"} {
		f.Add(text)
	}
	names := []string{"acquire", "release", "renew", "restore", "inspect", "rw_inspect", "move", "permit_revoke",
		"probe", "mark_broken"}
	f.Fuzz(func(t *testing.T, text string) {
		reply, rest, err := decode(text)
		if err == nil && len(rest) > len(text) {
			t.Fatalf("%q: %v, more is left than there was", text, reply)
		}
		if ints, ok := integers([]byte(text)); ok && (err != nil || rest != "" ||
			fmt.Sprint(ints) != fmt.Sprint(integersOf(reply))) {
			t.Fatalf("%q: integers %v, decode %v %v", text, ints, reply, err)
		}
		for _, name := range names {
			reply, err := withDirectPath(name, text)
			if err == nil && len(integersOf(reply)) == 0 && !shapeOf(name).list {
				t.Fatalf("%s %q: an empty reply", name, text)
			}
		}
	})
}
