package resp

import (
	"bytes"
	"testing"
)

func TestElements(t *testing.T) {
	for reply, want := range map[string]string{
		"*0\r\n":                          "",
		"*2\r\n:1\r\n$1\r\na\r\n":         ":1\r\n|$1\r\na\r\n",
		"%1\r\n+a\r\n*1\r\n_\r\n":         "+a\r\n|*1\r\n_\r\n",
		"*1\r\n":                          "none",
		"*1\r\n$3\r\nab":                  "none",
		"*-1\r\n":                         "none",
		"~1\r\n:1\r\n":                    "none",
		"%4611686018427387904\r\n:1\r\n":  "none",
		"*99999999999999999999\r\n:1\r\n": "none",
		"":                                "none",
	} {
		all, ok := Elements([]byte(reply))
		got := string(bytes.Join(all, []byte("|")))
		if !ok {
			got = "none"
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", reply, got, want)
		}
		if again := string(Array(all)); ok && reply[0] == '*' && again != reply {
			t.Errorf("%q: Array makes %q", reply, again)
		}
	}
}

func TestText(t *testing.T) {
	for reply, want := range map[string]string{
		"$3\r\na:1\r\n":     "a:1",
		"$5\r\ntxt:a\r\n":   "txt:a",
		"=5\r\ntxt:a\r\n":   "a",
		"$0\r\n\r\n":        "",
		"$-1\r\n":           "none",
		"+a\r\n":            "none",
		"*1\r\n$1\r\na\r\n": "none",
		"$":                 "none",
	} {
		text, ok := Text([]byte(reply))
		if got := string(text); ok && got != want || !ok && want != "none" {
			t.Errorf("%q: got %q %v, want %q", reply, got, ok, want)
		}
	}
}
