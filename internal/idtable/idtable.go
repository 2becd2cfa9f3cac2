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
	given  uint32   // how many numbers exist
	free   []uint32 // numbers of entries that were removed
}

// Leaf is how many entries a Table grows by.
const Leaf = 512

// Add returns a number for p, which must not be nil. It is the number of a removed entry, or a new
// one.
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

// At returns the entry with a number that Add has returned. After Remove, it returns nil until Add
// uses the number again.
func (t *Table[T]) At(number uint32) *T { return *t.slot(number) }

// Last is the highest number that Add has ever returned, 0 for none.
func (t *Table[T]) Last() uint32 { return t.given }

// Remove removes the entry with that number, which must exist. Add may use the number again.
func (t *Table[T]) Remove(number uint32) {
	*t.slot(number) = nil
	t.free = append(t.free, number)
}

func (t *Table[T]) slot(number uint32) **T { return &t.leaves[(number-1)/Leaf][(number-1)%Leaf] }
