package lockcmd

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
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
		"-ERR no\r\n":                          replyError("ERR no"),
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
	for _, text := range []string{"", "x\r\n", ":x\r\n", "$9\r\nab\r\n", "$2\r\nabcd", "*-2\r\n", "$-2\r\n", "*99999999999\r\n"} {
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
		":1\r\n", "*0\r\n", "*-1\r\n", "*x\r\n", "*1\r\n$1\r\n1\r\n", "*1\r\n:\r\n", "*1\r\n:x\r\n", "*1\r\n:1\r\n:2\r\n", "*10\r\n:1\r\n",
		"*1\r\n:99999999999999999999\r\n", "-ERR no\r\n", "\r\n:1\r\n",
	} {
		if got, ok := integers([]byte(text)); ok {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	call := &scriptCall{script: &script.Script{SHA: "abc"}, keys: []string{"k", "{k}:x"}, args: scriptArgs("me", int64(-5), 7)}
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
		{"an error of the script", soon, "-WRONGTYPE no\r\n", true, nil, true, replyError("WRONGTYPE no")},
		{"out of memory", soon, "-OOM no\r\n", true, nil, true, replyError("OOM no")},
		{"no such script", soon, "-NOSCRIPT no\r\n", true, nil, false, nil},
		{"moved", soon, "-MOVED 1 127.0.0.1:1\r\n", true, nil, false, nil},
		{"on its way", soon, "-ASK 1 127.0.0.1:1\r\n", true, nil, false, nil},
		{"loading", soon, "-LOADING no\r\n", true, nil, false, nil},
		{"not sent", soon, "", false, broken, false, nil},
		{"not sent, and no time left", over, "", false, os.ErrDeadlineExceeded, true, script.ErrRefused},
		{"sent and lost", soon, "", true, broken, true, broken},
		{"no reply of Redis", soon, "what\r\n", true, nil, true, script.ErrUnknown},
		{"more than a reply", soon, ":1\r\n:2\r\n", true, nil, true, script.ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Service{cfg: Config{SendScript: func(_ time.Time, _ *time.Time, _, _ int, _, dst []byte) ([]byte, bool, error) {
				return append(dst, c.reply...), c.sent, c.err
			}}}
			_, err, done := s.runDirect(c.until, nil, &scriptCall{script: script.ReleaseScript, keys: []string{"k"}})
			if done != c.done || done && !errors.Is(err, c.want) {
				t.Errorf("got %v, done %v, want %v, %v", err, done, c.want, c.done)
			}
			if c.done && c.sent && c.err == broken && script.Judge(err) != script.Ambiguous {
				t.Errorf("judged %v", script.Judge(err))
			}
		})
	}
}

// noDirectPath is a SendScript that sends nothing, so scripts go through the client library.
func noDirectPath(_ time.Time, _ *time.Time, _, _ int, _, dst []byte) ([]byte, bool, error) {
	return dst, false, errors.New("no wire")
}

// TestDirectPath: Scripts use the direct path as soon as it exists. Redirects and missing scripts
// do no harm.
func TestDirectPath(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		var wired atomic.Int64
		s := leash(t, rdb, Config{}, func(s *Service) {
			wire := s.cfg.SendScript
			s.cfg.SendScript = func(until time.Time, writeBy *time.Time, db, slot int, command, dst []byte) ([]byte, bool, error) {
				reply, sent, err := wire(until, writeBy, db, slot, command, dst)
				if sent && err == nil {
					wired.Add(1)
				}
				return reply, sent, err
			}
		})
		a, key := connect(t, s), newKey()
		for i := 0; wired.Load() < 10; i++ {
			if i == 10_000 {
				t.Fatalf("%d scripts of %d went by the wire", wired.Load(), 2*i)
			}
			a.token(key)
			want(t, a.do("LOCK.RELEASE", key), ":1")
		}
		if err := each(rdb, func(c *redis.Client) error { return c.ScriptFlush(t.Context()).Err() }); err != nil {
			t.Fatal(err)
		}
		a.token(key)
		want(t, a.do("LOCK.RELEASE", key), ":1")
	})
}

// each calls f for every master.
func each(rdb redis.UniversalClient, f func(*redis.Client) error) error {
	if c, ok := rdb.(*redis.ClusterClient); ok {
		return c.ForEachMaster(context.Background(), func(_ context.Context, c *redis.Client) error { return f(c) })
	}
	return f(rdb.(*redis.Client))
}
