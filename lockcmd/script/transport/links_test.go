package transport

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

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
	if got, err := decode([]byte("-ERR no\r\n")); err != resp.ReplyError("ERR no") {
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
		"*2\r\n:1\r\n*0\r\n", "*1\r\n$-1\r\n", "*1\r\n-ERR no\r\n",
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
	if got := call.append([]byte("+OK\r\n"), "EVALSHA", call.Script.SHA); string(got) != "+OK\r\n"+want {
		t.Errorf("got %q, want %q behind what was there", got, want)
	}
}

// TestR7OutcomesOfACall: A call counts as refused only if Redis certainly did not run it.
func TestR7OutcomesOfACall(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name    string
		replies []string
		sent    bool
		err     error
		want    error // nil for none
		verdict Verdict
	}{
		{"answered", []string{":1\r\n"}, true, nil, nil, Answered},
		{"an error of the script", []string{"-WRONGTYPE no\r\n"}, true, nil, resp.ReplyError("WRONGTYPE no"), Answered},
		{"out of memory", []string{"-OOM no\r\n"}, true, nil, resp.ReplyError("OOM no"), Answered},
		{"no such script", []string{"-NOSCRIPT no\r\n", ":1\r\n"}, true, nil, nil, Answered},
		{"moved", []string{"-MOVED 1 127.0.0.1:1\r\n"}, true, nil, resp.ReplyError("MOVED 1 127.0.0.1:1"), Refused},
		{"loading", []string{"-LOADING no\r\n"}, true, nil, resp.ReplyError("LOADING no"), Refused},
		{"not sent", nil, false, broken, ErrRefused, Unsent},
		{"sent and lost", nil, true, broken, broken, Ambiguous},
		{"no reply of Redis", []string{"what\r\n"}, true, nil, ErrUnknown, Ambiguous},
		{"more than a reply", []string{":1\r\n:2\r\n"}, true, nil, ErrUnknown, Ambiguous},
		{"a null", []string{"$-1\r\n"}, true, nil, ErrUnknown, Ambiguous},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := &Client{Links: &fakeLinks{replies: c.replies, sent: c.sent, err: c.err}}
			_, err := client.Run(time.Now().Add(time.Minute), nil, &Call{Script: new(Script), Keys: []string{"k"}})
			if !errors.Is(err, c.want) || err != nil && Judge(err) != c.verdict {
				t.Errorf("got %v, want %v and verdict %v", err, c.want, c.verdict)
			}
		})
	}
}

// TestReplyOfAnotherShapeClosesItsConnection: After such a reply, later replies on the connection
// may belong to other commands. The connection is closed.
func TestReplyOfAnotherShapeClosesItsConnection(t *testing.T) {
	links := &fakeLinks{replies: []string{"+QUEUED\r\n"}, sent: true}
	c := &Client{Links: links}
	_, err := c.Run(time.Now().Add(time.Minute), nil, &Call{Script: new(Script), DB: 3, Keys: []string{"k"}})
	if !errors.Is(err, ErrShape) {
		t.Errorf("error %v: want ErrShape", err)
	}
	if want := fmt.Sprint("[3 ", slots.Of([]byte("k")), "]"); fmt.Sprint(links.dropped) != want {
		t.Errorf("told %v, want %v", links.dropped, want)
	}
}

// fakeLinks are Links to a Redis that gives these replies, one after the other.
type fakeLinks struct {
	Links
	replies []string
	sent    bool
	err     error
	dropped []string // "db slot"
}

func (l *fakeLinks) Script(_ time.Time, _ *time.Time, _ int, _ slots.Slot, _, dst []byte) ([]byte, bool, error) {
	if len(l.replies) > 0 {
		dst, l.replies = append(dst, l.replies[0]...), l.replies[1:]
	}
	return dst, l.sent, l.err
}

func (l *fakeLinks) DropScriptConnections(db int, slot slots.Slot) {
	l.dropped = append(l.dropped, fmt.Sprint(db, " ", slot))
}
