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
				t.Fatalf("got the number %d, which is none or somebody's", n)
			}
			present[n] = p
			most = max(most, len(present))
			continue
		}
		for n := range present { // any of them
			r.Remove(n)
			if delete(present, n); r.At(n) != nil {
				t.Fatal("what was taken out is kept from the garbage collector")
			}
			break
		}
	}
	for n, p := range present {
		if r.At(n) != p {
			t.Fatalf("another one has the number %d", n)
		}
	}
	if int(r.given) != most {
		t.Errorf("%d numbers were given, but at most %d were in use", r.given, most)
	}
}
