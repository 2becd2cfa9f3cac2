package lockcmd

import (
	"leash/lockcmd/script"
	"leash/renewal"
)

// renewalBuffer has the requests and replies of one renewal round. It is reused. With 100,000
// renewals a second, its garbage would make the collector scan a million holds every few seconds.
type renewalBuffer struct {
	commands, replies []byte
	results           []int64 // of one batch
}

// maxPooledRenewalBuffer is the largest buffer that is kept. A round of a node that lags fits in
// it, because garbage would make the node lag more.
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

// appendRenewal appends the script call that renews a batch.
func (buf *renewalBuffer) appendRenewal(b renewal.Batch) {
	first := b.Holds[0].Keeper.(*hold)
	m := first.mode()
	keys := len(b.Holds) * m.MinKeys(first.key(), "")
	c := appendArray(buf.commands, 3+keys+1+2*len(b.Holds))
	c = appendDecimal(appendBulk(appendBulk(c, "EVALSHA"), m.Renew.SHA), int64(keys))
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		c = appendBulk(c, h.key())
		if m.Helpers != nil {
			for _, key := range m.Helpers(h.key(), h.owner()) {
				c = appendBulk(c, key)
			}
		}
	}
	c = appendDecimal(c, renewedTTL(b))
	var word [192]byte
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		c = appendBulk(c, h.appendOwner(word[:0]))
		c = appendBulk(c, script.AppendRecordPrefix(word[:0], h.token, h.carrier.name))
	}
	buf.commands = c
}

// renewedTTL is the TTL that a batch's script sets, in ms; 0 for a check.
func renewedTTL(b renewal.Batch) int64 {
	if b.Lease {
		return 0
	}
	return b.TTL.Milliseconds()
}

// renewalArgs returns the keys and arguments of the script that renews a batch.
func renewalArgs(b renewal.Batch) (keys, args []string) {
	args = script.Args(renewedTTL(b))
	for _, w := range b.Holds {
		h := w.Keeper.(*hold)
		owner := h.owner()
		keys = append(keys, h.mode().Keys(h.key(), owner)...)
		args = append(args, owner, script.RecordPrefix(h.token, h.carrier.name))
	}
	return keys, args
}

// nextReply reads the next reply: an array of integers or an error. The result is valid until the
// next call. rest is the text after the reply.
func (buf *renewalBuffer) nextReply(text []byte) (said []int64, rest []byte, err error) {
	line, rest := script.CutLine(text)
	if len(line) > 0 && line[0] == '-' {
		return nil, rest, script.ReplyError(line[1:])
	}
	n, ok := script.Integer(line, '*')
	if !ok || n < 0 || n > int64(len(rest)) {
		return nil, nil, script.ErrReply
	}
	buf.results = buf.results[:0]
	for range n {
		line, rest = script.CutLine(rest)
		one, ok := script.Integer(line, ':')
		if !ok {
			return nil, nil, script.ErrReply
		}
		buf.results = append(buf.results, one)
	}
	return buf.results, rest, nil
}
