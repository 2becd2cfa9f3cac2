package load

import (
	"strings"
	"testing"
)

// recorded is an example of what a Leash sends.
var recorded = &Recording{
	key: "bench:-1:0", token: "1700000000000001",
	acquire: []string{"EVALSHA", "a", "1", "bench:-1:0", "{bench:-1:0}:token", "7"},
	release: []string{"EVALSHA", "b", "1", "bench:-1:0", "me", "1700000000000001"},
}

// TestRecordedPair: a recording is sent again, for another key and with the new token.
func TestRecordedPair(t *testing.T) {
	p := recorded.Pair("bench:5:0")
	for _, token := range []string{"1800000000000002", "1900000000000003"} {
		if got, want := p.begin(nil), command("EVALSHA", "a", "1", "bench:5:0", "{bench:5:0}:token", "7"); string(got) != string(want) {
			t.Errorf("got %q, want %q", got, want)
		}
		got, complete, err := p.receive([]byte("*3\r\n:1\r\n:"+token+"\r\n:30000\r\n"), nil)
		if want := command("EVALSHA", "b", "1", "bench:5:0", "me", token); err != nil || complete || string(got) != string(want) {
			t.Errorf("got %q, %v, %v, want %q", got, complete, err, want)
		}
		if got, complete, err := p.receive([]byte("*3\r\n:1\r\n:0\r\n:0\r\n"), nil); err != nil || !complete || len(got) > 0 {
			t.Errorf("got %q, %v, %v", got, complete, err)
		}
	}
}

func TestPairIsChecked(t *testing.T) {
	for _, c := range []struct {
		pair    *pair
		replies []string
		want    string
	}{
		{LockPair("k"), []string{"$-1\r\n"}, "got a nil"},
		{LockPair("k"), []string{":0\r\n"}, "got [0], want a token"},
		{LockPair("k"), []string{":5\r\n", ":0\r\n"}, "got [0], want 1"},
		{LockPair("k"), []string{":5\r\n", "*3\r\n:1\r\n:0\r\n:0\r\n"}, "got [1 0 0], want 1"},
		{LockPair("k"), []string{":5\r\n", "-LOCKNOTHELD no\r\n"}, "LOCKNOTHELD"},
		{LockPair("k"), []string{":5\r\n:1\r\n"}, "behind it"},
		{recorded.Pair("k"), []string{"*2\r\n:0\r\n:30000\r\n"}, "got [0 30000], want 1 and a token"},
		{recorded.Pair("k"), []string{"*3\r\n:1\r\n:5\r\n:30000\r\n"}, "token 5: want one of 16 digits"},
		{recorded.Pair("k"), []string{"*3\r\n:1\r\n:1700000000000009\r\n:30000\r\n", ":-1\r\n"}, "got [-1], want 1"},
	} {
		c.pair.begin(nil)
		var err error
		for _, reply := range c.replies {
			if err != nil {
				t.Errorf("%q: too early: %v", c.replies, err)
			}
			_, _, err = c.pair.receive([]byte(reply), nil)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.replies, err, c.want)
		}
	}
}

func TestMonitored(t *testing.T) {
	for line, want := range map[string]string{
		"+1700000000.1 [0 127.0.0.1:5000] \"EVALSHA\" \"a\\\"b\" \"\\x00\\n\" \"\"\r\n": "EVALSHA|a\"b|\x00\n|",
		"+1700000000.1 [0 lua] \"DEL\" \"k\"\r\n":                                       "",
	} {
		words, err := monitored(line)
		if got := strings.Join(words, "|"); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"+OK\r\n", "+1.1 [0 x] DEL\r\n", "+1.1 [0 x] \"DEL\r\n"} {
		if words, err := monitored(line); err == nil {
			t.Errorf("%q: got %q", line, words)
		}
	}
}
