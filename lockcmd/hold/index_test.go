package hold

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"leash/internal/idtable"
)

// TestIndexIsAMapOfStacks: Compares an index with a map of stacks while holds are added and
// removed.
func TestIndexIsAMapOfStacks(t *testing.T) {
	t.Parallel()
	x, present := newIndex(), make(map[string][]*Hold)
	var all []*Hold
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		key := strconv.Itoa(r.IntN(20_000))
		if len(all) == 0 || r.IntN(3) > 0 {
			h := registered(x, key)
			x.add(h)
			all, present[key] = append(all, h), append(present[key], h)
			continue
		}
		i := r.IntN(len(all))
		h := all[i]
		x.remove(h)
		x.remove(h) // has no effect
		x.table.Remove(h.entry)
		at := slices.Index(present[h.Key()], h)
		all, present[h.Key()] = slices.Delete(all, i, i+1), slices.Delete(present[h.Key()], at, at+1)
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
}

// registered returns a hold of that key that is in x.
func registered(x *index, key string) *Hold {
	h := &Hold{naming: numbered(key, 1)}
	h.entry = x.table.Add(h)
	return h
}

// TestR24IndexTakesLittleMemory: Limits the memory of an index for each hold. A map would take 46
// bytes.
func TestR24IndexTakesLittleMemory(t *testing.T) {
	t.Parallel()
	x := newIndex()
	const holds = 100_000
	for i := range holds {
		x.add(registered(x, strconv.Itoa(i)))
	}
	chains := 0
	for i := range x.parts {
		chains += len(x.parts[i].chains)
	}
	if each := float64(4*chains+4*idtable.Leaf*len(x.links)+8*holds) / holds; each > 17 {
		t.Errorf("an index takes %.1f bytes a hold, want 16 at most, or little more", each)
	}
}

func BenchmarkIndex(b *testing.B) {
	x := newIndex()
	holds := make([]*Hold, 1_000_000)
	for i := range holds {
		holds[i] = registered(x, strconv.Itoa(i))
		x.add(holds[i])
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h := holds[i*7919%len(holds)]
		for range x.of(h.Key()) {
		}
		x.remove(h)
		x.add(h)
	}
}
