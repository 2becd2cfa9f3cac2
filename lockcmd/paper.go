package lockcmd

import (
	"context"

	"leash/renewal"
)

// paper is what the requests of one renewal round are written on. It is used again for another one: there may be 100,000 holds to be renewed a
// second, and the garbage of that would have the collector look at a million holds every few seconds.
type paper struct {
	text  []byte
	words []piece
	args  []any
}

// piece is a part of a paper's text. As a pointer it is an argument of go-redis that needs no memory of its own.
type piece []byte

// MarshalBinary implements encoding.BinaryMarshaler.
func (w *piece) MarshalBinary() ([]byte, error) { return *w, nil }

// keepAlive is the script that renews a batch. It must have been sent before the paper is cleared.
func (p *paper) keepAlive(ctx context.Context, verb string, b renewal.Batch) once {
	m := b.Holds[0].Keeper.(*hold).mode()
	ttl := b.TTL.Milliseconds()
	if b.Lease {
		ttl = 0
	}
	begin := len(p.args)
	p.args = append(p.args, verb, m.renew.body(verb), 0)
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		p.add(append(p.text, h.key()...))
		if m.helpers != nil {
			for _, key := range m.helpers(h.key(), h.owner()) {
				p.args = append(p.args, key)
			}
		}
	}
	p.args[begin+2] = len(p.args) - begin - 3
	p.args = append(p.args, ttl)
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		p.add(h.appendOwner(p.text))
		p.add(appendMark(p.text, h.token, h.carrier.name))
	}
	return scriptCommand(ctx, p.args[begin:len(p.args):len(p.args)])
}

// add takes what was appended to the text as an argument.
func (p *paper) add(text []byte) {
	p.words = append(p.words, piece(text[len(p.text):len(text):len(text)]))
	p.args = append(p.args, &p.words[len(p.words)-1])
	p.text = text
}

// clear makes the paper ready for other requests, and lets go what is on it.
func (p *paper) clear() {
	clear(p.args)
	clear(p.words)
	p.text, p.words, p.args = p.text[:0], p.words[:0], p.args[:0]
}
