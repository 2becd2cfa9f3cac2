package lockcmd

import "leash/renewal"

// paper is what the requests of one renewal round and their replies are written on. It is used
// again for another one: there may be 100,000 holds to be renewed a second, and the garbage of that
// would have the collector look at a million holds every few seconds.
type paper struct {
	commands, replies []byte
	said              []int64 // of one batch
	fetched           byte    // of no use, see fetch
}

// keptPaper is how large its buffers are kept: a round of a node that lags behind fits, for garbage
// would make it lag more.
const keptPaper = 1 << 20

func (s *store) newPaper() *paper {
	p, _ := s.papers.Get().(*paper)
	if p == nil {
		p = &paper{}
	}
	p.commands, p.replies = p.commands[:0], p.replies[:0]
	return p
}

func (s *store) free(p *paper) {
	if cap(p.commands) <= keptPaper && cap(p.replies) <= keptPaper {
		s.papers.Put(p)
	}
}

// fetch has the processor read what there is to write down of a batch: the holds lie all over the
// memory, and it waits for many such reads in little more time than for one, unless all the work
// for a hold comes between.
func (p *paper) fetch(b renewal.Batch) {
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		for _, text := range [...]string{h.text, h.carrier.name} {
			if text != "" {
				p.fetched += text[0]
			}
		}
	}
}

// keepAlive adds the script that renews a batch.
func (p *paper) keepAlive(b renewal.Batch) {
	p.fetch(b)
	first := b.Holds[0].Keeper.(*hold)
	m := first.mode()
	keys := len(b.Holds) * m.least(first.key(), "")
	c := appendArray(p.commands, 3+keys+1+2*len(b.Holds))
	c = appendDecimal(appendBulk(appendBulk(c, "EVALSHA"), m.renew.sha), int64(keys))
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		c = appendBulk(c, h.key())
		if m.helpers != nil {
			for _, key := range m.helpers(h.key(), h.owner()) {
				c = appendBulk(c, key)
			}
		}
	}
	c = appendDecimal(c, renewedTTL(b))
	var word [192]byte
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		c = appendBulk(c, h.appendOwner(word[:0]))
		c = appendBulk(c, appendMark(word[:0], h.token, h.carrier.name))
	}
	p.commands = c
}

// renewedTTL is what a batch's script sets, in ms; 0 to look only.
func renewedTTL(b renewal.Batch) int64 {
	if b.Lease {
		return 0
	}
	return b.TTL.Milliseconds()
}

// renewals are the keys and arguments of the script that renews a batch.
func renewals(b renewal.Batch) (keys, args []string) {
	args = words(renewedTTL(b))
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		owner := h.owner()
		keys = append(keys, h.mode().keys(h.key(), owner)...)
		args = append(args, owner, mark(h.token, h.carrier.name))
	}
	return keys, args
}

// next reads the next reply, which is an array of integers unless it is an error. It is good until
// the next call. The rest is what follows.
func (p *paper) next(text []byte) (said []int64, rest []byte, err error) {
	line, rest := cutLine(text)
	if len(line) > 0 && line[0] == '-' {
		return nil, rest, replyError(line[1:])
	}
	n, ok := integer(line, '*')
	if !ok || n < 0 || n > int64(len(rest)) {
		return nil, nil, errReply
	}
	p.said = p.said[:0]
	for range n {
		line, rest = cutLine(rest)
		one, ok := integer(line, ':')
		if !ok {
			return nil, nil, errReply
		}
		p.said = append(p.said, one)
	}
	return p.said, rest, nil
}
