package lockcmd

import "leash/renewal"

// renewalBuffer is what the requests of one renewal round and their replies are written on. It is used
// again for another one: there may be 100,000 holds to be renewed a second, and the garbage of that
// would have the collector look at a million holds every few seconds.
type renewalBuffer struct {
	commands, replies []byte
	results           []int64 // of one batch
	prefetched        byte    // of no use, see fetch
}

// maxPooledRenewalBuffer is how large its buffers are kept: a round of a node that lags behind fits, for garbage
// would make it lag more.
const maxPooledRenewalBuffer = 1 << 20

func (s *store) newBuffer() *renewalBuffer {
	buf, _ := s.buffers.Get().(*renewalBuffer)
	if buf == nil {
		buf = &renewalBuffer{}
	}
	buf.commands, buf.replies = buf.commands[:0], buf.replies[:0]
	return buf
}

func (s *store) freeBuffer(buf *renewalBuffer) {
	if cap(buf.commands) <= maxPooledRenewalBuffer && cap(buf.replies) <= maxPooledRenewalBuffer {
		s.buffers.Put(buf)
	}
}

// prefetch has the processor read what there is to write down of a batch: the holds lie all over the
// memory, and it waits for many such reads in little more time than for one, unless all the work
// for a hold comes between.
func (buf *renewalBuffer) prefetch(b renewal.Batch) {
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		for _, text := range [...]string{h.text, h.carrier.name} {
			if text != "" {
				buf.prefetched += text[0]
			}
		}
	}
}

// appendRenewal adds the script that renews a batch.
func (buf *renewalBuffer) appendRenewal(b renewal.Batch) {
	buf.prefetch(b)
	first := b.Holds[0].Keeper.(*hold)
	m := first.mode()
	keys := len(b.Holds) * m.minKeys(first.key(), "")
	c := appendArray(buf.commands, 3+keys+1+2*len(b.Holds))
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
		c = appendBulk(c, appendRecordPrefix(word[:0], h.token, h.carrier.name))
	}
	buf.commands = c
}

// renewedTTL is what a batch's script sets, in ms; 0 to look only.
func renewedTTL(b renewal.Batch) int64 {
	if b.Lease {
		return 0
	}
	return b.TTL.Milliseconds()
}

// renewalArgs are the keys and arguments of the script that renews a batch.
func renewalArgs(b renewal.Batch) (keys, args []string) {
	args = scriptArgs(renewedTTL(b))
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		owner := h.owner()
		keys = append(keys, h.mode().keys(h.key(), owner)...)
		args = append(args, owner, recordPrefix(h.token, h.carrier.name))
	}
	return keys, args
}

// nextReply reads the next reply, which is an array of integers unless it is an error. It is good until
// the next call. The rest is what follows.
func (buf *renewalBuffer) nextReply(text []byte) (said []int64, rest []byte, err error) {
	line, rest := cutLine(text)
	if len(line) > 0 && line[0] == '-' {
		return nil, rest, replyError(line[1:])
	}
	n, ok := integer(line, '*')
	if !ok || n < 0 || n > int64(len(rest)) {
		return nil, nil, errReply
	}
	buf.results = buf.results[:0]
	for range n {
		line, rest = cutLine(rest)
		one, ok := integer(line, ':')
		if !ok {
			return nil, nil, errReply
		}
		buf.results = append(buf.results, one)
	}
	return buf.results, rest, nil
}
