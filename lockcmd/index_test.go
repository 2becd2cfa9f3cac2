package lockcmd

import (
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
)

// TestIndexIsAMapOfStacks compares an index with what it stands for, while holds come and go.
func TestIndexIsAMapOfStacks(t *testing.T) {
	x, present := newIndex(), make(map[string][]*hold)
	var all []*hold
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		key := strconv.Itoa(r.IntN(20_000))
		if len(all) == 0 || r.IntN(3) > 0 {
			h := &hold{naming: numbered(key, 1)}
			x.add(h)
			all, present[key] = append(all, h), append(present[key], h)
			continue
		}
		i := r.IntN(len(all))
		h := all[i]
		x.remove(h)
		x.remove(h) // does nothing
		all, present[h.key()] = slices.Delete(all, i, i+1), without(present[h.key()], h)
	}
	for i := range 20_000 {
		key := strconv.Itoa(i)
		got := slices.Collect(x.of(key))
		slices.Reverse(got)
		if !slices.Equal(got, present[key]) {
			t.Fatalf("key %s has %d holds, want %d, the newest first", key, len(got), len(present[key]))
		}
	}
	for _, h := range all {
		x.remove(h)
	}
	for i := range x.parts {
		if n := x.parts[i].holds; n != 0 {
			t.Fatalf("a part counts %d holds, but all are gone", n)
		}
	}
	for _, l := range x.leaves {
		if l.holds != [leafHolds]*hold{} {
			t.Fatal("a hold that was taken out is kept from the garbage collector")
		}
	}
	given := x.given
	for range given {
		x.add(&hold{naming: numbered("again", 1)})
	}
	if x.given != given {
		t.Errorf("%d holds had numbers, and as many others need %d", given, x.given)
	}
}

// TestR24AnIndexTakesLittle: 46 bytes a hold, as a map takes, would be too much.
func TestR24AnIndexTakesLittle(t *testing.T) {
	x := newIndex()
	const holds = 100_000
	for i := range holds {
		x.add(&hold{naming: numbered(strconv.Itoa(i), 1)})
	}
	chains := 0
	for i := range x.parts {
		chains += len(x.parts[i].chains)
	}
	leaves := len(x.leaves) * int(reflect.TypeFor[indexLeaf]().Size())
	if each := float64(4*chains+leaves) / holds; each > 17 {
		t.Errorf("an index takes %.1f bytes a hold, want 16 at most, or little more", each)
	}
}

func BenchmarkIndex(b *testing.B) {
	x := newIndex()
	holds := make([]*hold, 1_000_000)
	for i := range holds {
		holds[i] = &hold{naming: numbered(strconv.Itoa(i), 1)}
		x.add(holds[i])
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h := holds[i*7919%len(holds)]
		for range x.of(h.key()) {
		}
		x.remove(h)
		x.add(h)
	}
}

// all are the holds in x.
func (x *index) all() iter.Seq[*hold] {
	return func(yield func(*hold) bool) {
		for i := range x.parts {
			for _, n := range x.parts[i].chains {
				for ; n != 0; n = *x.older(n) {
					if !yield(*x.hold(n)) {
						return
					}
				}
			}
		}
	}
}
