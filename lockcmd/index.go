package lockcmd

import (
	"hash/maphash"
	"iter"

	"leash/internal/idtable"
)

// index is the present holds of a Leash by key, whatever the database. It is a hash table whose
// chains run through the holds' entries, which are numbers, rather than through the holds: a
// pointer from each hold to another one, wherever that lies, was a third of what the garbage
// collector had to do for a million of them. The chains are in parts, each of which grows by
// itself: so an add that lets one grow moves a thousandth of the holds at most. It does not shrink.
// Guarded by the Service's mu.
type index struct {
	seed  maphash.Seed
	parts [indexParts]indexPart
	// whose entry is which: the holds of carriers, and those that were until now
	table idtable.Table[hold]
	links []*[idtable.Leaf]uint32 // by entry: what is older in the chain
}

// indexPart is the chains of some keys, the newest holds first.
type indexPart struct {
	chains []uint32 // as many as a power of two; 0 ends one
	holds  int
}

const (
	indexParts = 1024
	chainHolds = 2 // a part has twice as many chains once it has more holds for each of them
)

func newIndex() *index { return &index{seed: maphash.MakeSeed()} }

// of are the holds of key, the newest first. None may be taken out meanwhile.
func (x *index) of(key string) iter.Seq[*hold] {
	return func(yield func(*hold) bool) {
		p, hash := x.bucket(key)
		if p.chains == nil {
			return
		}
		for n := *p.chain(hash); n != 0; n = *x.older(n) {
			if h := x.table.At(n); h.key() == key && !yield(h) {
				return
			}
		}
	}
}

// add takes h, which has an entry and is newer than the others of its key.
func (x *index) add(h *hold) {
	p, hash := x.bucket(h.key())
	if p.holds++; p.holds > chainHolds*len(p.chains) {
		x.grow(p)
	}
	for int(h.entry) > len(x.links)*idtable.Leaf {
		x.links = append(x.links, new([idtable.Leaf]uint32))
	}
	first := p.chain(hash)
	*x.older(h.entry), *first = *first, h.entry
}

// remove takes h out, if it is in.
func (x *index) remove(h *hold) {
	p, hash := x.bucket(h.key())
	if p.chains == nil {
		return
	}
	for at := p.chain(hash); *at != 0; at = x.older(*at) {
		if *at == h.entry {
			*at = *x.older(h.entry)
			p.holds--
			return
		}
	}
}

// older is where the next entry in the chain of n is.
func (x *index) older(n uint32) *uint32 { return &x.links[(n-1)/idtable.Leaf][(n-1)%idtable.Leaf] }

// bucket is where a key belongs: the part by one end of its hash, the chain in it by the other.
func (x *index) bucket(key string) (*indexPart, uint64) {
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
			if _, hash := x.bucket(x.table.At(n).key()); hash&uint64(len(old)) != 0 {
				half = 1
			}
			*ends[half], ends[half] = n, x.older(n)
		}
		*ends[0], *ends[1] = 0, 0
	}
}
