package proxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"leash/internal/redistest"
	"leash/proxy/resp"
)

// TestReadBuffersFitTheClient checks the sizes of the two read buffers after many batches of
// commands. They stay small for a client that sends one small command at a time. Later batches of
// the same size come with one read, if they are not large, into the same two buffers.
func TestReadBuffersFitTheClient(t *testing.T) {
	get := redistest.Command("GET", "key")
	set := func(size int) string { return redistest.Command("SET", "key", strings.Repeat("x", size)) }
	for _, test := range []struct {
		name, commands string
		most           int // bytes of a buffer
		reads          int // into different buffers, for all commands
	}{
		{"one GET", get, firstBatch, 1},
		{"a SET of 64 bytes", set(64), firstBatch, 1},
		{"a SET of 300 bytes", set(300), firstBatch, 1},
		{"a SET of 2000 bytes", set(2000), 4 * firstBatch, 1},
		{"16 commands", strings.Repeat(get+set(64), 8), 4 * firstBatch, 1},
		{"20 commands", strings.Repeat(get+set(64), 10), 4 * firstBatch, 1},
		{"60 commands", strings.Repeat(get+set(64), 30), 4 * firstBatch, 1},
		{"100 commands", strings.Repeat(get+set(64), 50), usualBatch, 2},
		{"a SET of 20,000 bytes", set(20_000), keptBatch, 2},
	} {
		in := input{mu: new(sync.Mutex), garbage: &garbage{}}
		in.parser.Limits = resp.Limits{MaxBulk: 1 << 20, MaxArgs: 100, MaxCommand: 1 << 21}
		reads := 0
		readAll := func() {
			reads = 0
			for stream := test.commands; stream != ""; reads++ {
				stream = stream[readOnce(t, &in, stream):]
			}
		}
		for range 100 {
			readAll()
		}
		if reads > test.reads {
			t.Errorf("%s: %d reads, want at most %d", test.name, reads, test.reads)
		}
		for _, b := range []*batch{in.batch, in.spare} {
			if b.size() > test.most {
				t.Errorf("%s: a buffer of %d bytes, want at most %d", test.name, b.size(), test.most)
			}
		}
		if n := testing.AllocsPerRun(100, readAll); n > 0 {
			t.Errorf("%s: %v allocations a batch, want 0", test.name, n)
		}
	}
}

// readOnce reads what there is room for, and parses it. The replies to the read before have come
// then. It returns the number of bytes.
func readOnce(t *testing.T, in *input, stream string) int {
	t.Helper()
	in.prepare()
	n := copy(in.batch.buf[in.batch.filled:], stream)
	in.batch.filled += n
	for {
		_, used, err := in.parser.Next(in.batch.unparsed())
		if err != nil {
			t.Fatal(fmt.Errorf("%d bytes: %w", n, err))
		}
		if used == 0 {
			break
		}
		in.batch.parsed += used
	}
	if in.spare != nil {
		in.spare.refs = 0 // its replies have come
	}
	in.batch.refs = 1
	return n
}
