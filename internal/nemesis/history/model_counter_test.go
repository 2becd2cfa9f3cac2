package history

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestLostCount: the check leaves a counter out only if Redis may have forgotten it while it was in
// use.
func TestLostCount(t *testing.T) {
	ops := testHistory{asked(Set, 1, 1, 10, 11), unknown(Give, 1, 1, 20), asked(Read, 0, 1, 25, 30)}
	for _, row := range []struct {
		key      string
		from, to int64
		want     bool
	}{
		{"", 0, 9, false}, {"", 0, 10, true}, {"", 15, 16, true}, {"", 30, 40, true}, {"", 31, 40, false}, {"lock:1", 15, 16, false},
	} {
		h := NewHistory(&FaultTimeline{})
		ms := at(Op{}, row.from, row.to)
		h.forgets = []*interval{{key: row.key, from: ms.Call, to: ms.Return}}
		if got := h.lostCount([]porcupine.Operation(ops)); got != row.want {
			t.Errorf("%q forgotten from %d to %d: got %v", row.key, row.from, row.to, got)
		}
	}
}

// TestWithout: without takes one word out of a list.
func TestWithout(t *testing.T) {
	for _, row := range []struct {
		list, word, want string
		was              bool
	}{
		{"1 12 2 ", "12 ", "1 2 ", true}, {"1 12 2 ", "1 ", "12 2 ", true}, {"1 12 2 ", "2 ", "1 12 ", true}, {"12 ", "2 ", "12 ", false}, {"7 ", "7 ", "", true},
	} {
		if got, was := without(row.list, row.word); got != row.want || was != row.was {
			t.Errorf("%q without %q: got %q, %v, want %q, %v", row.list, row.word, got, was, row.want, row.was)
		}
	}
}
