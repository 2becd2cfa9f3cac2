package lockcmd

import (
	"hash/maphash"
	"iter"
)

// index is the present holds of a Leash by key, whatever the database. It is a hash table whose chains run through numbers rather than through
// the holds: a pointer from each hold to another one, wherever that lies, was a third of what the garbage collector had to do for a million of
// them. The holds themselves are listed once, in the order in which they came and so, mostly, of their places in memory. The chains are in
// parts, each of which grows by itself: so an add that lets one grow moves a thousandth of the holds at most. It does not shrink. Guarded by
// the Service's mu.
type index struct {
	seed  maphash.Seed
	parts [indexParts]indexPart

	leaves []*indexLeaf
	given  uint32 // numbers so far
	free   uint32 // the first number to be given again; they make a chain
}

// indexPart is the chains of some keys, the newest holds first.
type indexPart struct {
	chains []uint32 // as many as a power of two; 0 ends one
	holds  int
}

// indexLeaf is the holds of some numbers, and behind each the next in its chain.
type indexLeaf struct {
	holds [leafHolds]*hold
	older [leafHolds]uint32
}

const (
	indexParts = 1024
	chainHolds = 2 // a part has twice as many chains once it has more holds for each of them
	leafHolds  = 512
)

func newIndex() *index { return &index{seed: maphash.MakeSeed()} }

// of are the holds of key, the newest first. None may be taken out meanwhile.
func (x *index) of(key string) iter.Seq[*hold] {
	return func(yield func(*hold) bool) {
		p, hash := x.place(key)
		if p.chains == nil {
			return
		}
		for n := *p.chain(hash); n != 0; n = *x.older(n) {
			if h := *x.hold(n); h.key() == key && !yield(h) {
				return
			}
		}
	}
}

// add takes h, which is newer than the others of its key.
func (x *index) add(h *hold) {
	p, hash := x.place(h.key())
	if p.holds++; p.holds > chainHolds*len(p.chains) {
		x.grow(p)
	}
	n, first := x.number(), p.chain(hash)
	*x.hold(n), *x.older(n) = h, *first
	*first = n
}

// remove takes h out, if it is in.
func (x *index) remove(h *hold) {
	p, hash := x.place(h.key())
	if p.chains == nil {
		return
	}
	for at := p.chain(hash); *at != 0; at = x.older(*at) {
		if n := *at; *x.hold(n) == h {
			*at = *x.older(n)
			*x.hold(n), *x.older(n) = nil, x.free
			x.free = n
			p.holds--
			return
		}
	}
}

// number gives one to a hold: that of one that has gone, or a new one.
func (x *index) number() uint32 {
	if n := x.free; n != 0 {
		x.free = *x.older(n)
		return n
	}
	if int(x.given) == len(x.leaves)*leafHolds {
		x.leaves = append(x.leaves, &indexLeaf{})
	}
	x.given++
	return x.given
}

// hold is where the hold of a number is.
func (x *index) hold(n uint32) **hold { return &x.leaves[(n-1)/leafHolds].holds[(n-1)%leafHolds] }

// older is where the next number in the chain of n is.
func (x *index) older(n uint32) *uint32 { return &x.leaves[(n-1)/leafHolds].older[(n-1)%leafHolds] }

// place is where a key belongs: the part by one end of its hash, the chain in it by the other.
func (x *index) place(key string) (*indexPart, uint64) {
	hash := maphash.String(x.seed, key)
	return &x.parts[hash>>32%indexParts], hash
}

// chain is where the chain of a hash begins.
func (p *indexPart) chain(hash uint64) *uint32 { return &p.chains[hash&uint64(len(p.chains)-1)] }

// grow gives p twice as many chains. What was one chain becomes two, each in the same order.
func (x *index) grow(p *indexPart) {
	old := p.chains
	p.chains = make([]uint32, max(2*len(old), 1))
	for i, n := range old {
		ends := [2]*uint32{&p.chains[i], &p.chains[i+len(old)]}
		for ; n != 0; n = *x.older(n) {
			half := 0
			if _, hash := x.place((*x.hold(n)).key()); hash&uint64(len(old)) != 0 {
				half = 1
			}
			*ends[half], ends[half] = n, x.older(n)
		}
		*ends[0], *ends[1] = 0, 0
	}
}
