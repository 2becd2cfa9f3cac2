package proxy

import (
	"bytes"
	"errors"
)

// Sizes of a session's read buffers: the first one, the usual one, and what is
// kept at most. A larger one is called large.
const (
	firstBatch = 4 << 10
	usualBatch = 16 << 10
	keptBatch  = 64 << 10
)

// A large batch is growth times as large as what has come of its command, at
// most, so that a client that only announces a large value costs little. The
// last step is from an eighth of the value, and all that is copied is a seventh.
const growth = 8

// errLeaving ends the loop of a session that shall read no more.
var errLeaving = errors.New("proxy: server is stopping")

// batch is a buffer of bytes read from the client. Commands are parsed and sent without a copy, so
// the buffer is not written while one of its calls is in flight. A session alternates between two
// batches, because the last one is always in flight at the next read (11.3 → 8.4 µs a command when
// measured).
type batch struct {
	buf    []byte
	parsed int // bytes that have been parsed
	filled int // bytes that have been read

	// Guarded by session.mu.
	refs int  // calls in flight whose request lies here
	left bool // nothing more is read into it
}

func (b *batch) unparsed() []byte { return b.buf[b.parsed:b.filled] }

// read reads more from the client, behind what has not been parsed yet.
func (s *session) read() error {
	s.prepare()
	if len(s.ahead) > 0 {
		n := copy(s.in.buf[s.in.filled:], s.ahead)
		s.in.filled += n
		s.ahead = s.ahead[n:]
		if len(s.ahead) == 0 {
			s.ahead = nil
		}
		return nil
	}
	if s.leaving.Load() {
		return errLeaving
	}
	s.beginSilence()
	n, err := s.conn.receive(s.in.buf[s.in.filled:])
	s.endSilence()
	s.in.filled += n
	if n > 0 {
		s.server.stats.inBytes.Add(int64(n))
		return nil
	}
	return err
}

// prepare makes room for reading: in the batch at hand while a command in it
// is incomplete and space is left, otherwise in another one.
func (s *session) prepare() {
	if s.in == nil {
		s.in = &batch{buf: make([]byte, firstBatch)}
		return
	}
	rest := s.in.unparsed()
	if room := len(s.in.buf) - s.in.filled; len(rest) > 0 && room > 0 {
		// a large one is filled before there is a larger one
		if s.parser.Need() <= room+len(rest) || len(rest) >= keptBatch {
			return
		}
	}
	want, need := usualBatch, 0
	switch {
	case len(rest) > 0:
		need = max(s.parser.Need(), len(rest)+1)
		want = batchSize(len(rest), need)
	case s.in.filled < len(s.in.buf):
		want = firstBatch // it has been enough this time
	}
	next := s.take(want, need)
	next.parsed, next.filled = 0, copy(next.buf, rest)
	if next != s.in {
		s.in, s.spare = next, s.in
	}
	if n := s.spare.size(); n > keptBatch && (n < need || need <= keptBatch) {
		s.parser.Forget()
		s.leaveBatch(s.spare)
		s.spare = nil
	}
}

// batchSize is how large a batch to take for a command that needs so many bytes
// at least, when rest of them have come. Behind a large value there is room for
// what else the command has. A command of many values doubles its batch.
func batchSize(rest, need int) int {
	size := max(need+firstBatch, 2*rest)
	for size/growth > max(rest, usualBatch) {
		size /= growth
	}
	return max(size, usualBatch)
}

// size is 0 for no batch.
func (b *batch) size() int {
	if b == nil {
		return 0
	}
	return len(b.buf)
}

// leaveBatch lets go of a batch once no call needs it any more.
func (s *session) leaveBatch(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.left = true
	s.freeLocked(b)
}

// freeLocked frees the memory of a batch that is not in use.
func (s *session) freeLocked(b *batch) {
	if b.left && b.refs == 0 {
		s.server.garbage.add(len(b.buf))
	}
}

// keep returns a command's bytes for use after the command. A large command is not copied: its
// batch is kept and not read into again.
func (s *session) keep(raw []byte) []byte {
	if len(raw) <= keptBatch {
		return bytes.Clone(raw)
	}
	s.mu.Lock()
	s.in.refs++ // never decremented: the garbage collector frees it
	s.mu.Unlock()
	return raw
}

// take returns an unused batch of at least size bytes. It is one of the two usual ones if it fits,
// and a large one only for a large size.
func (s *session) take(size, need int) *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range [...]*batch{s.spare, s.in} {
		if b == nil || b.refs > 0 {
			continue
		}
		if n := len(b.buf); n >= size && n <= max(keptBatch, size) || n >= need && need > keptBatch {
			return b
		}
	}
	return &batch{buf: make([]byte, size)}
}
