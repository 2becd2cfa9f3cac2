package idtable

import (
	"math/rand/v2"
	"testing"
)

// TestTableIsAMap compares a Table with a map, while entries come and go.
func TestTableIsAMap(t *testing.T) {
	var r Table[int]
	present, random, most := make(map[uint32]*int), rand.New(rand.NewPCG(1, 2)), 0
	for range 100_000 {
		if random.IntN(5) > 1 {
			p := new(int)
			n := r.Add(p)
			if n == 0 || present[n] != nil {
				t.Fatalf("Add returned %d, which is invalid or in use", n)
			}
			present[n] = p
			most = max(most, len(present))
			continue
		}
		for n := range present { // any of them
			r.Remove(n)
			if delete(present, n); r.At(n) != nil {
				t.Fatal("the table still points to a removed entry")
			}
			break
		}
	}
	for n, p := range present {
		if r.At(n) != p {
			t.Fatalf("the number %d is of another entry", n)
		}
	}
	if int(r.given) != most {
		t.Errorf("%d numbers exist, but at most %d were in use at once", r.given, most)
	}
}
