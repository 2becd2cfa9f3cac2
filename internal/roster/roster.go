// Package roster gives values small numbers, so that long lists can hold numbers instead of
// pointers.
//
// Go's garbage collector follows every pointer. With a million of them in an order other than that
// in memory, each costs two or three cache misses, once for each list that holds it. The collector
// does not look at a list of numbers at all. The pointers are in a [Roster] once, in the order in
// which their values were made, which is mostly their order in memory.
package roster

// Roster numbers what is present, from 1 on. Its zero value is empty and ready. It is for one
// goroutine at a time, and does not shrink.
type Roster[T any] struct {
	leaves []*[Leaf]*T
	given  uint32   // numbers so far
	free   []uint32 // those of what has gone
}

// Leaf is for how many numbers a Roster has room, or none: it grows by so many.
const Leaf = 512

// Add gives p, which is not nil, a number: one that something else has had, or a new one.
func (r *Roster[T]) Add(p *T) (number uint32) {
	if last := len(r.free) - 1; last >= 0 {
		number, r.free = r.free[last], r.free[:last]
	} else {
		if r.given%Leaf == 0 {
			r.leaves = append(r.leaves, new([Leaf]*T))
		}
		r.given++
		number = r.given
	}
	*r.place(number) = p
	return number
}

// At is what has that number, which Add gave: nil once that has gone, until another one has it.
func (r *Roster[T]) At(number uint32) *T { return *r.place(number) }

// Remove takes out what has that number, which something else may have from now on. It must be
// there.
func (r *Roster[T]) Remove(number uint32) {
	*r.place(number) = nil
	r.free = append(r.free, number)
}

func (r *Roster[T]) place(number uint32) **T { return &r.leaves[(number-1)/Leaf][(number-1)%Leaf] }
