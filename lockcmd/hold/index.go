package hold

import (
	"hash/maphash"
	"iter"

	"leash/internal/idtable"
)

// index finds the present holds of a Leash by key, in any database. It is a hash table. Its chains
// link entry numbers instead of pointers to holds: pointers were a third of the garbage collector's
// work for a million holds. The chains are in parts that grow one by one, so an add moves at most a
// thousandth of the holds. An index does not shrink. The mutex of Registry guards it.
type index struct {
	seed  maphash.Seed
	parts [indexParts]indexPart
	// all entries: holds of carriers, and holds that have just ended
	table idtable.Table[Hold]
	links []*[idtable.Leaf]uint32 // by entry: the next older one in the chain
}

// indexPart has the chains of some keys, newest holds first.
type indexPart struct {
	chains []uint32 // a power of two of them; 0 ends a chain
	holds  int
}

const (
	indexParts = 1024
	chainHolds = 2 // a part with more holds per chain doubles its chains
)

func newIndex() *index { return &index{seed: maphash.MakeSeed()} }

// of iterates over the holds of key, newest first. No hold may be removed during that.
func (x *index) of(key string) iter.Seq[*Hold] {
	return func(yield func(*Hold) bool) {
		p, hash := x.bucket(key)
		if p.chains == nil {
			return
		}
		for n := *p.chain(hash); n != 0; n = *x.older(n) {
			if h := x.table.At(n); h.Key() == key && !yield(h) {
				return
			}
		}
	}
}

// add adds h, which has an entry and is newer than the others of its key.
func (x *index) add(h *Hold) {
	p, hash := x.bucket(h.Key())
	if p.holds++; p.holds > chainHolds*len(p.chains) {
		x.grow(p)
	}
	for int(h.entry) > len(x.links)*idtable.Leaf {
		x.links = append(x.links, new([idtable.Leaf]uint32))
	}
	first := p.chain(hash)
	*x.older(h.entry), *first = *first, h.entry
}

// remove removes h, if it is there.
func (x *index) remove(h *Hold) {
	p, hash := x.bucket(h.Key())
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

// older is the link to the next entry in the chain of n.
func (x *index) older(n uint32) *uint32 { return &x.links[(n-1)/idtable.Leaf][(n-1)%idtable.Leaf] }

// bucket returns the part for a key and its hash. One end of the hash chooses the part, the other
// one the chain.
func (x *index) bucket(key string) (*indexPart, uint64) {
	hash := maphash.String(x.seed, key)
	return &x.parts[hash>>32%indexParts], hash
}

// chain is the start of the chain for a hash.
func (p *indexPart) chain(hash uint64) *uint32 { return &p.chains[hash&uint64(len(p.chains)-1)] }

// grow doubles the chains of p. Each chain becomes two, in the same order.
func (x *index) grow(p *indexPart) {
	old := p.chains
	p.chains = make([]uint32, max(2*len(old), 1))
	for i, n := range old {
		ends := [2]*uint32{&p.chains[i], &p.chains[i+len(old)]}
		for ; n != 0; n = *x.older(n) {
			half := 0
			if _, hash := x.bucket(x.table.At(n).Key()); hash&uint64(len(old)) != 0 {
				half = 1
			}
			*ends[half], ends[half] = n, x.older(n)
		}
		*ends[0], *ends[1] = 0, 0
	}
}
