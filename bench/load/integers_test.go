package load

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestIntegers reads replies at once, and byte by byte.
func TestIntegers(t *testing.T) {
	for text, want := range map[string][]int64{
		":1\r\n":                             {1},
		":-2\r\n":                            {-2},
		"*3\r\n:1\r\n:1700000000\r\n:30\r\n": {1, 1700000000, 30},
		"*0\r\n":                             {},
		"*2\r\n:0\r\n:-1\r\n":                {0, -1},
	} {
		var r integers
		for range 2 { // a second reply is read as the first was
			complete, err := r.receive([]byte(text))
			if err != nil || !complete || !slices.Equal(r.list, want) {
				t.Errorf("%q: got %v, %v, %v", text, r.list, complete, err)
			}
		}
		for i := range len(text) {
			complete, err := r.receive([]byte(text[i : i+1]))
			if err != nil || complete != (i == len(text)-1) {
				t.Errorf("%q, byte %d: got %v, %v", text, i, complete, err)
			}
		}
		if !slices.Equal(r.list, want) {
			t.Errorf("%q bytewise: got %v", text, r.list)
		}
	}
}

func TestIntegersRefused(t *testing.T) {
	for text, want := range map[string]string{
		"-LOCKNOTHELD no\r\n": `got "-LOCKNOTHELD no"`,
		":1\r\n:2\r\n":        `":2\r\n" behind it`,
		"$1\r\na\r\n":         `got "$1"`,
		":\r\n":               `got ":"`,
		":x\r\n":              `got ":x"`,
	} {
		var r integers
		if _, err := r.receive([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	var r integers
	if _, err := r.receive([]byte("$-1\r\n")); !errors.Is(err, errNil) {
		t.Errorf("nil: got %v", err)
	}
}
