package history

import (
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestShortestKeepsResult: shortest does not change the verdict of any random history. Some
// of these fit the model, and some do not.
func TestShortestKeepsResult(t *testing.T) {
	for _, row := range []struct {
		aspect property
		modes  []string
		most   int // number of holds
	}{
		{mutex, []string{"plain"}, 6},
		{reentrant, []string{"plain"}, 4},
		{readWrite, []string{"read", "read", "write"}, 6},
		{semaphore, []string{"permit"}, 12},
	} {
		rnd, fits := rand.New(rand.NewPCG(5, 5)), 0
		const histories = 3000
		for range histories {
			ops := row.aspect.of(randomHistory(rnd, row.modes, 1+rnd.IntN(row.most)))
			want := porcupine.CheckOperations(row.aspect.model, ops)
			if got := porcupine.CheckOperations(row.aspect.model, shortest(ops)); got != want {
				t.Fatalf("%s: got %v, want %v, of\n%s", row.aspect.name, got, want, lines(ops))
			}
			if want {
				fits++
			}
		}
		if fits < histories/10 || fits > histories*9/10 {
			t.Errorf("%s: %d of %d histories fit: want between a tenth and nine tenths", row.aspect.name, fits, histories)
		}
	}
}

// anyScene returns a few random holds. Their times are so close together that many orders fit, or
// none.
func randomHistory(rnd *rand.Rand, modes []string, holds int) (s testHistory) {
	length := 8 + rnd.Int64N(40)
	within := func(from, to int64) int64 { return from + rnd.Int64N(max(1, to-from+1)) }
	for hold := range holds {
		mode, owner := modes[rnd.IntN(len(modes))], [...]string{"", "me", "you"}[rnd.IntN(3)]
		sent := within(0, length)
		got := within(sent, sent+length/3)
		add := func(a Action, call, ret int64) {
			s = append(s, owned(at(Op{Action: a, Mode: mode, Hold: hold + 1, Counted: rnd.IntN(2) == 0}, call, ret), owner))
		}
		add(Grant, sent, got)
		over := got
		for range rnd.IntN(3) {
			over += within(0, 3)
			add([...]Action{Reacquire, InnerRelease}[rnd.IntN(2)], over, over+within(0, 2))
		}
		switch over = within(over, over+length/3); rnd.IntN(8) {
		case 0: // it is never released
		case 1, 2, 3:
			add(End, within(sent, over), Never)
		default:
			add(End, over, within(over, over+4))
		}
	}
	return s
}

func lines(ops []porcupine.Operation) (text string) {
	for _, o := range ops {
		text += line(o) + "\n"
	}
	return text
}

// TestManyReadersAreChecked: before each writer, forty readers wait, hold the lock together, and
// end without a release. Without shortest, the search would try a trillion states.
func TestManyReadersAreChecked(t *testing.T) {
	const readers, writers = 40, 20
	var s testHistory
	for w := range int64(writers) {
		from := w * 1000
		for r := range int64(readers) {
			hold := int(w*(readers+1) + r + 1)
			s = append(s, granted("read", hold, 0, from, from+100+r), ended("read", hold, from+200+r, Never))
		}
		hold := int((w + 1) * (readers + 1))
		s = append(s, granted("write", hold, 0, from+100, from+500), ended("write", hold, from+900, Never))
	}
	if got := readWrite.check(s, checkTimeout); got != porcupine.Ok {
		t.Errorf("got %v, want %v", got, porcupine.Ok)
	}
	last := len(s) - 2 // the grant of the last writer is before the last reader can have ended
	s[last] = granted("write", writers*(readers+1), 0, (writers-1)*1000+100, (writers-1)*1000+200)
	if got := readWrite.check(s, checkTimeout); got != porcupine.Illegal {
		t.Errorf("with a writer beside readers: got %v, want %v", got, porcupine.Illegal)
	}
}
