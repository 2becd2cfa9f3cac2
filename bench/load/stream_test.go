package load

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestStreamKnowsItsReplies: a value that was set is what the next GET of its key expects.
func TestStreamKnowsItsReplies(t *testing.T) {
	s := newStream([]string{"a", "b"}, 20, 50, 1)
	request, reply := s.next(2, nil, nil)
	if got, want := string(reply), "+OK\r\n+OK\r\n"; got != want {
		t.Errorf("filling: got %q, want %q", got, want)
	}
	if got, want := string(request[:len(request)/2]), "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$20\r\n1000000000000000qrst\r\n"; got != want {
		t.Errorf("filling: got %q, want %q", got, want)
	}
	values := map[string]string{}
	note := func(request []byte) {
		words := strings.Split(string(request), "\r\n")
		for i, w := range words {
			if w == "SET" {
				values[words[i+2]] = words[i+4]
			}
		}
	}
	note(request)
	sets := 0
	for range 1000 {
		request, reply := s.next(1, nil, nil)
		if bytes.Contains(request, []byte("SET")) {
			sets++
			note(request)
			continue
		}
		key := strings.Split(string(request), "\r\n")[4]
		if got, want := string(reply), "$20\r\n"+values[key]+"\r\n"; got != want {
			t.Fatalf("GET %s: expects %q, set was %q", key, got, want)
		}
	}
	if sets != 500 {
		t.Errorf("got %d SETs in 1000 commands, want 500", sets)
	}
}

func TestSetShare(t *testing.T) {
	for _, share := range []int{0, 10, 100} {
		s := newStream([]string{"a"}, 1, share, 1)
		s.next(1, nil, nil)
		request, _ := s.next(100, nil, nil)
		if got := bytes.Count(request, []byte("SET")); got != share {
			t.Errorf("got %d %%, want %d %%", got, share)
		}
	}
}

func TestValuesOfOneByte(t *testing.T) {
	s := newStream([]string{"a"}, 1, 100, 1)
	_, first := s.next(1, nil, nil)
	first = slices.Clone(first)
	s.next(1, nil, nil)
	s.sets = 0
	s.debt = 0
	_, reply := s.next(1, nil, nil)
	if got, want := string(reply), "$1\r\n2\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if string(first) != okReply {
		t.Errorf("got %q, want %q", first, okReply)
	}
}

func TestKeysFor(t *testing.T) {
	odd := func(key string) bool { return strings.HasSuffix(key, "1") }
	got, want := KeysFor(3, 2, odd), []string{"bench:3:1", "bench:3:11"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := KeysFor(0, 2, nil); !slices.Equal(got, []string{"bench:0:0", "bench:0:1"}) {
		t.Errorf("got %q", got)
	}
}
