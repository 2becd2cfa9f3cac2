package lockcmd

import (
	"hash/maphash"
	"iter"
)

// index is the present holds of a Leash by key, whatever the database. It is a hash table whose chains run through the holds: each takes 4 to 8
// bytes in it, where one in a map takes about 46. It is in parts, each of which grows by itself: so an add that lets one grow moves a
// thousandth of the holds at most. It does not shrink. Guarded by the Service's mu.
type index struct {
	seed  maphash.Seed
	parts [indexParts]indexPart
}

// indexPart is the chains of some keys, the newest holds first.
type indexPart struct {
	chains []*hold // as many as a power of two
	holds  int
}

const (
	indexParts = 1024
	chainHolds = 2 // a part has twice as many chains once it has more holds for each of them
)

func newIndex() *index { return &index{seed: maphash.MakeSeed()} }

// of are the holds of key, the newest first.
func (x *index) of(key string) iter.Seq[*hold] {
	return func(yield func(*hold) bool) {
		p, hash := x.place(key)
		if p.chains == nil {
			return
		}
		for h := *p.chain(hash); h != nil; h = h.older {
			if h.key() == key && !yield(h) {
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
	first := p.chain(hash)
	h.older, *first = *first, h
}

// remove takes h out, if it is in.
func (x *index) remove(h *hold) {
	p, hash := x.place(h.key())
	if p.chains == nil {
		return
	}
	for at := p.chain(hash); *at != nil; at = &(*at).older {
		if *at == h {
			*at, h.older = h.older, nil
			p.holds--
			return
		}
	}
}

// place is where a key belongs: the part by one end of its hash, the chain in it by the other.
func (x *index) place(key string) (*indexPart, uint64) {
	hash := maphash.String(x.seed, key)
	return &x.parts[hash>>32%indexParts], hash
}

// chain is where the chain of a hash begins.
func (p *indexPart) chain(hash uint64) **hold { return &p.chains[hash&uint64(len(p.chains)-1)] }

// grow gives p twice as many chains. What was one chain becomes two, each in the same order.
func (x *index) grow(p *indexPart) {
	old := p.chains
	p.chains = make([]*hold, max(2*len(old), 1))
	for i, h := range old {
		ends := [2]**hold{&p.chains[i], &p.chains[i+len(old)]}
		for ; h != nil; h = h.older {
			half := 0
			if _, hash := x.place(h.key()); hash&uint64(len(old)) != 0 {
				half = 1
			}
			*ends[half], ends[half] = h, &h.older
		}
		*ends[0], *ends[1] = nil, nil
	}
}
