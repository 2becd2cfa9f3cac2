package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/proxy/resp"
	"leash/proxy/slots"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		":-7\r\n":      int64(-7),
		"*1\r\n:0\r\n": []int64{0},
		"*3\r\n:1\r\n:1766000000000000\r\n:-2\r\n": []int64{1, 1766000000000000, -2},
		"*2\r\n:1\r\n$4\r\na\r\nb\r\n":             []any{int64(1), "a\r\nb"},
		"*1\r\n$0\r\n\r\n":                         []any{""},
	} {
		if got, err := decode([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
		for i := range text {
			if got, err := decode([]byte(text[:i])); err != ErrShape {
				t.Errorf("%q cut after %d: got %v, %v", text, i, got, err)
			}
		}
	}
	if got, err := decode([]byte("-ERR no\r\n")); err != ReplyError("ERR no") {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestDecodeRefuses: no script answers these. Neither nesting nor announced lengths make decode use
// more memory than it has received.
func TestDecodeRefuses(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("*1\r\n", 1<<20) + ":1\r\n", strings.Repeat("*100000\r\n", 100), "*2147483647\r\n:1\r\n",
		"$9999999999999\r\n", "$9223372036854775807\r\nab\r\n", "*-2\r\n", "$-2\r\n", ":\r\n", ":x\r\n",
		":99999999999999999999\r\n", "*1\r\n", "$1\r\nab\r\n", "", "\r\n", "%1\r\n:1\r\n:2\r\n", "x\r\n",
		":1\r\n:2\r\n", "*1\r\n:1\r\n:2\r\n", "+OK\r\n", "$1\r\n1\r\n", "$-1\r\n", "*-1\r\n",
		"*2\r\n:1\r\n*0\r\n", "*1\r\n$-1\r\n", "*1\r\n-ERR no\r\n", "*1\r\n+OK\r\n",
	} {
		if reply, err := decode([]byte(text)); err != ErrShape {
			t.Errorf("%.20q: %v, %v, want ErrShape", text, reply, err)
		}
	}
}

// FuzzDecode: a reply that decode reads has these bytes, and no others.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{":1\r\n", "*3\r\n:1\r\n:77\r\n:500\r\n", "*2\r\n:6\r\n$2\r\nab\r\n", "$-1\r\n",
		"-ERR no\r\n", "+OK\r\n", ":\n", "$9999999999999\r\n", "*1\r\n*1\r\n*1\r\n:1\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		reply, err := decode([]byte(text))
		if err != nil {
			return
		}
		var again []byte
		n, kinds := Items(reply)
		if one, ok := Int(reply); ok {
			again = resp.AppendInt(nil, one)
		} else {
			again = resp.AppendArray(nil, len(n))
		}
		for i, kind := range kinds {
			if kind == 'i' {
				again = resp.AppendInt(again, n[i])
			} else {
				again = resp.AppendBulk(again, TextAt(reply, i))
			}
		}
		if string(again) != text {
			t.Fatalf("%q reads as %v, which is %q", text, reply, again)
		}
	})
}

func TestEncode(t *testing.T) {
	t.Parallel()
	call := &Call{Script: &Script{SHA: "abc"}, Keys: []string{"k", "{k}:x"}, Args: Words("me", int64(-5), 7)}
	want := "*8\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n2\r\n$1\r\nk\r\n$5\r\n{k}:x\r\n$2\r\nme\r\n$2\r\n-5\r\n$1\r\n7\r\n"
	if got := call.Append([]byte("+OK\r\n")); string(got) != "+OK\r\n"+want {
		t.Errorf("got %q, want %q behind what was there", got, want)
	}
}

// TestR7WhenTheDirectPathFallsBack: A script is sent again through the client library only when
// Redis certainly did not run it.
func TestR7WhenTheDirectPathFallsBack(t *testing.T) {
	broken := errors.New("broken")
	soon, over := time.Now().Add(time.Minute), time.Now()
	for _, c := range []struct {
		name  string
		until time.Time
		reply string
		sent  bool
		err   error
		done  bool
		want  error // the error of runDirect; nil for none
	}{
		{"answered", soon, ":1\r\n", true, nil, true, nil},
		{"an error of the script", soon, "-WRONGTYPE no\r\n", true, nil, true, ReplyError("WRONGTYPE no")},
		{"out of memory", soon, "-OOM no\r\n", true, nil, true, ReplyError("OOM no")},
		{"no such script", soon, "-NOSCRIPT no\r\n", true, nil, false, nil},
		{"moved", soon, "-MOVED 1 127.0.0.1:1\r\n", true, nil, false, nil},
		{"on its way", soon, "-ASK 1 127.0.0.1:1\r\n", true, nil, false, nil},
		{"loading", soon, "-LOADING no\r\n", true, nil, false, nil},
		{"not sent", soon, "", false, broken, false, nil},
		{"not sent, and no time left", over, "", false, os.ErrDeadlineExceeded, true, ErrRefused},
		{"sent and lost", soon, "", true, broken, true, broken},
		{"no reply of Redis", soon, "what\r\n", true, nil, true, ErrUnknown},
		{"more than a reply", soon, ":1\r\n:2\r\n", true, nil, true, ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := &Client{Links: &fakeLinks{reply: c.reply, sent: c.sent, err: c.err}}
			_, err, done := client.runDirect(c.until, nil, &Call{Script: new(Script), Keys: []string{"k"}})
			if done != c.done || done && !errors.Is(err, c.want) {
				t.Errorf("got %v, done %v, want %v, %v", err, done, c.want, c.done)
			}
			if c.done && c.sent && c.err == broken && Judge(err) != Ambiguous {
				t.Errorf("judged %v", Judge(err))
			}
		})
	}
}

// TestNullIsNoScriptReply: Go-redis reports a null reply as an error. It is not an error reply of
// Redis.
func TestNullIsNoScriptReply(t *testing.T) {
	reply, err := new(Script).Run(t.Context(), nullRedis{}, []string{"k"}, nil)
	if reply != nil || !errors.Is(err, ErrShape) || Judge(err) != Ambiguous {
		t.Errorf("%v, %v, want an outcome that is unknown", reply, err)
	}
}

// nullRedis answers every command with a null.
type nullRedis struct{}

func (nullRedis) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.SetErr(redis.Nil)
	return redis.Nil
}

// TestReplyOfAnotherShapeClosesItsConnection: After such a reply, later replies on the connection
// may belong to other commands. The connection is closed.
func TestReplyOfAnotherShapeClosesItsConnection(t *testing.T) {
	links := &fakeLinks{reply: "+QUEUED\r\n", sent: true}
	c := &Client{Links: links}
	_, err, done := c.runDirect(time.Now().Add(time.Minute), nil,
		&Call{Script: new(Script), DB: 3, Keys: []string{"k"}})
	if !errors.Is(err, ErrShape) || !done {
		t.Errorf("error %v, done %v: want ErrShape, and that it is not sent again on the way", err, done)
	}
	if want := fmt.Sprint("[3 ", slots.Of([]byte("k")), "]"); fmt.Sprint(links.dropped) != want {
		t.Errorf("told %v, want %v", links.dropped, want)
	}
}

// fakeLinks are Links to a Redis that gives one reply to every script.
type fakeLinks struct {
	Links
	reply   string
	sent    bool
	err     error
	dropped []string // "db slot"
}

func (l *fakeLinks) Script(_ time.Time, _ *time.Time, _ int, _ slots.Slot, _, dst []byte) ([]byte, bool, error) {
	return append(dst, l.reply...), l.sent, l.err
}

func (l *fakeLinks) DropScriptConnections(db int, slot slots.Slot) {
	l.dropped = append(l.dropped, fmt.Sprint(db, " ", slot))
}
