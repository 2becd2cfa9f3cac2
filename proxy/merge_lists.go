package proxy

import (
	"leash/proxy/chunk"
	"leash/proxy/resp"
)

// Lists may be large. The whole reply uses the memory of the parts' replies and does not copy it.

// mergeValues puts the elements of the parts' arrays in the order of the keys.
func mergeValues(f *fanout) []byte {
	of := make([]*part, f.keys) // the part with each key
	for _, p := range f.parts {
		rest, n, ok := arrayHeader(p.reply)
		if !ok || n != len(p.keys) {
			return nil
		}
		p.reply = rest
		for _, key := range p.keys {
			of[key] = p
		}
	}
	for _, p := range of {
		if !p.moveElement(&f.body) {
			return nil
		}
	}
	return resp.AppendArray(nil, f.keys)
}

// moveElement moves the next element of a list to the end of to. The header of the list has been
// removed. It returns false if there is no complete element.
func (p *part) moveElement(to *chunk.List) bool {
	var scan resp.Scanner
	done, odd := false, false
	move := func(b []byte) (n int) {
		var err error
		n, done, err = scan.Scan(b)
		odd = err != nil
		to.Append(b[:n])
		return n
	}
	p.reply = p.reply[move(p.reply):]
	for !done && !odd && p.rest.Len() > 0 {
		p.rest.Advance(move(p.rest.Front()))
	}
	return done && !odd
}

// mergeLists joins the parts' lists to one. Its type is that of the first list: an array or a set.
func mergeLists(f *fanout) []byte {
	total, kind := 0, byte(0)
	for i, p := range f.parts {
		rest, n, ok := listHeader(p.reply)
		if !ok || n < 0 {
			return nil
		}
		if i == 0 {
			kind = p.reply[0]
		}
		f.body.Append(rest)
		f.body.Splice(&p.rest)
		total += n
	}
	header := resp.AppendArray(nil, total)
	header[0] = kind
	return header
}
