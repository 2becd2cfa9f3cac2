package proxy

import "errors"

// Sizes of a session's read buffers: the first one, the usual one, and what is
// kept at most.
const (
	firstBatch = 4 << 10
	usualBatch = 16 << 10
	keptBatch  = 64 << 10
)

// errLeaving ends the loop of a session that shall read no more.
var errLeaving = errors.New("proxy: server is stopping")

// batch is a buffer of bytes read from the client. Commands are parsed and
// sent from where they lie, so nobody writes over it while a call of it is in
// flight; a session has two that take turns, since the last one is always
// still in flight at the next read (11.3 → 8.4 µs a command when measured).
type batch struct {
	buf    []byte
	parsed int // bytes that have been parsed
	filled int // bytes that have been read
	refs   int // calls in flight whose request lies here; guarded by session.mu
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
	if len(rest) > 0 && s.in.filled < len(s.in.buf) && s.parser.Need() <= len(s.in.buf)-s.in.parsed {
		return
	}
	want, need := usualBatch, max(s.parser.Need(), len(rest)+1)
	if len(rest) == 0 {
		need = 0
		if s.in.filled < len(s.in.buf) {
			want = firstBatch // it has been enough this time
		}
	} else {
		// Grow with what has come, not with what was announced.
		want = max(want, len(rest)+len(rest)/4, min(need, 4*len(rest)))
	}
	next := s.take(want, need)
	next.parsed, next.filled = 0, copy(next.buf, rest)
	if next != s.in {
		s.in, s.spare = next, s.in
	}
	if s.spare != nil && len(s.spare.buf) > keptBatch && need <= keptBatch {
		s.spare = nil
	}
}

// take returns a batch of at least size bytes that nobody refers to: one of
// the two at hand if it will do, and a large one for a large need only.
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
