// Package idtable gives objects small numbers, so that long lists of objects need no pointers.
//
// The garbage collector follows every pointer. A list of a million pointers to objects in random
// order costs two or three cache misses for each object and each list. A list of numbers costs the
// collector nothing. The pointers are in one Table, in the order in which the objects were added,
// which is mostly their order in memory.
package idtable

// Table numbers its entries, from 1 on. Its zero value is empty and ready. It is not safe for
// concurrent use, and it does not shrink.
type Table[T any] struct {
	leaves []*[Leaf]*T
	given  uint32   // numbers so far
	free   []uint32 // numbers of entries that were removed
}

// Leaf is by how many entries a Table grows.
const Leaf = 512

// Add gives p, which is not nil, a number: that of a removed entry, or a new one.
func (t *Table[T]) Add(p *T) (number uint32) {
	if last := len(t.free) - 1; last >= 0 {
		number, t.free = t.free[last], t.free[:last]
	} else {
		if t.given%Leaf == 0 {
			t.leaves = append(t.leaves, new([Leaf]*T))
		}
		t.given++
		number = t.given
	}
	*t.slot(number) = p
	return number
}

// At is the entry with a number that Add gave. It is nil after Remove, until Add gives the number
// again.
func (t *Table[T]) At(number uint32) *T { return *t.slot(number) }

// Remove takes out the entry with that number, which must be there. Add may give the number again.
func (t *Table[T]) Remove(number uint32) {
	*t.slot(number) = nil
	t.free = append(t.free, number)
}

func (t *Table[T]) slot(number uint32) **T { return &t.leaves[(number-1)/Leaf][(number-1)%Leaf] }
