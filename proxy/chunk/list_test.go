package chunk

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestListIsAQueueOfBytes compares lists with plain slices under random operations.
func TestListIsAQueueOfBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var a, b List
	var wantA, wantB []byte
	for step := range 20000 {
		switch random.IntN(6) {
		case 0, 1:
			p := bytes.Repeat([]byte{byte(step)}, random.IntN(3*size)/(1+random.IntN(50)))
			a.Append(p)
			wantA = append(wantA, p...)
		case 2:
			p := bytes.Repeat([]byte{byte(step)}, random.IntN(100))
			b.Append(p)
			wantB = append(wantB, p...)
		case 3:
			n := random.IntN(len(a.Front()) + 1)
			if n > 0 {
				a.Advance(n)
				wantA = wantA[n:]
			}
		case 4:
			if random.IntN(10) == 0 {
				a.Splice(&b)
				wantA, wantB = append(wantA, wantB...), nil
			}
		case 5:
			if random.IntN(50) == 0 {
				var got []byte
				a.TakeAll(func(p []byte) { got = append(got, p...) })
				if !bytes.Equal(got, wantA) {
					t.Fatalf("step %d: other bytes", step)
				}
				wantA = nil
			}
		}
		if a.Len() != len(wantA) || b.Len() != len(wantB) {
			t.Fatalf("step %d: lengths %d and %d, want %d and %d", step, a.Len(), b.Len(), len(wantA), len(wantB))
		}
		if !bytes.HasPrefix(wantA, a.Front()) || len(wantA) > 0 && a.Front() == nil {
			t.Fatalf("step %d: the front is not the beginning", step)
		}
	}
	a.Clear()
	if a.Len() != 0 || a.Front() != nil {
		t.Error("not empty after Clear")
	}
}
