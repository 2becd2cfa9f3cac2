package script

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		":-7\r\n":                              int64(-7),
		"$3\r\na\r\n\r\n":                      "a\r\n",
		"$0\r\n\r\n":                           "",
		"$-1\r\n":                              nil,
		"*-1\r\n":                              nil,
		"+OK\r\n":                              "OK",
		"-ERR no\r\n":                          ReplyError("ERR no"),
		"*0\r\n":                               []any{},
		"*3\r\n:1\r\n$1\r\nx\r\n*1\r\n$-1\r\n": []any{int64(1), "x", []any{nil}},
	} {
		got, rest, err := decode(text + "more")
		if err != nil || rest != "more" || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, rest %q, %v, want %v", text, got, rest, err, want)
		}
		for i := range text {
			if got, _, err := decode(text[:i]); err == nil {
				t.Errorf("%q cut after %d: got %v", text, i, got)
			}
		}
	}
	for _, text := range []string{"", "x\r\n", ":x\r\n", "$9\r\nab\r\n", "$2\r\nabcd", "*-2\r\n", "$-2\r\n",
		"*99999999999\r\n"} {
		if got, _, err := decode(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("*2\r\n:1\r\n$1\r\nx\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, rest, err := decode(text); err == nil && !strings.HasSuffix(text, rest) {
			t.Errorf("%q: rest %q", text, rest)
		}
	})
}

func TestIntegers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int64{
		"*1\r\n:0\r\n": {0},
		"*3\r\n:1\r\n:1766000000000000\r\n:-2\r\n": {1, 1766000000000000, -2},
	} {
		got, ok := integers([]byte(text))
		if !ok || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, ok, want)
		}
		for i := range text {
			if got, ok := integers([]byte(text[:i])); ok {
				t.Errorf("%q cut after %d: got %v", text, i, got)
			}
		}
	}
	for _, text := range []string{
		":1\r\n", "*0\r\n", "*-1\r\n", "*x\r\n", "*1\r\n$1\r\n1\r\n", "*1\r\n:\r\n", "*1\r\n:x\r\n",
		"*1\r\n:1\r\n:2\r\n", "*10\r\n:1\r\n",
		"*1\r\n:99999999999999999999\r\n", "-ERR no\r\n", "\r\n:1\r\n",
	} {
		if got, ok := integers([]byte(text)); ok {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	call := &scriptCall{Script: &Script{SHA: "abc"}, Keys: []string{"k", "{k}:x"}, Args: words("me", int64(-5), 7)}
	want := "*8\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n2\r\n$1\r\nk\r\n$5\r\n{k}:x\r\n$2\r\nme\r\n$2\r\n-5\r\n$1\r\n7\r\n"
	if got := call.append([]byte("+OK\r\n")); string(got) != "+OK\r\n"+want {
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
			_, err, done := client.runDirect(c.until, nil, &scriptCall{Script: ReleaseScript, Keys: []string{"k"}})
			if done != c.done || done && !errors.Is(err, c.want) {
				t.Errorf("got %v, done %v, want %v, %v", err, done, c.want, c.done)
			}
			if c.done && c.sent && c.err == broken && Judge(err) != Ambiguous {
				t.Errorf("judged %v", Judge(err))
			}
		})
	}
}
