package proxy

import (
	"bytes"

	"leash/proxy/chunk"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// fanout is a call that is split over several nodes or slots. Its parts are sent at the same time.
// When the last one has its reply, the replies are merged. If a part failed, the reply is the error
// of that part. So a nil or a count is never wrong. The failure of a spare part does not count.
type fanout struct {
	call  *call
	parts []*part // only splitByKey changes it: it replaces one part by several
	left  int     // parts without a whole reply; guarded by session.mu
	keys  int     // how many keys the call has
	merge merge
	body  chunk.List // the rest of the whole reply, after what merge returns
}

// merge makes the whole reply from the replies of the parts. None of them is an error.
type merge func(f *fanout) []byte

// finished records that p has its whole reply. The goroutine that finishes the last part merges the
// replies.
func (f *fanout) finished(p *part) upstream.Flusher {
	s := f.call.session
	s.mu.Lock()
	p.done = true
	f.left--
	last := f.left == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	reply, kept := f.result(), 0
	for _, p := range f.parts {
		kept += p.kept
		p.reply = nil
		p.rest.Clear()
	}
	s.addKept(-kept)
	return f.call.replyWith(reply, &f.body)
}

func (f *fanout) result() []byte {
	var failed []byte
	executed := false
	for _, p := range f.parts {
		switch {
		case len(p.reply) == 0 || p.reply[0] != '-':
			executed = true
		case failed == nil && !p.spare:
			failed = p.whole()
		}
	}
	switch {
	case executed && hasMessage(failed, msgUpstreamDown):
		return resp.AppendError(nil, msgPartlyDown)
	case failed != nil:
		return failed
	}
	if merged := f.merge(f); merged != nil {
		return merged
	}
	f.body.Clear()
	return resp.AppendError(nil, msgOddParts)
}

// mergeOK is for commands that answer OK.
func mergeOK(f *fanout) []byte { return f.parts[0].whole() }

// mergeSum is for commands that count.
func mergeSum(f *fanout) []byte {
	var sum int64
	for _, p := range f.parts {
		n, ok := integer(p.whole())
		if !ok {
			return nil
		}
		sum += n
	}
	return resp.AppendInt(nil, sum)
}

// mergeAll is for commands that answer a list of 0 and 1. An element is 1 if it is 1 in all
// replies.
func mergeAll(f *fanout) []byte {
	var all []int64
	for i, p := range f.parts {
		rest, n, ok := arrayHeader(p.whole())
		if !ok || i > 0 && n != len(all) {
			return nil
		}
		for j := range n {
			one, more, _ := bytes.Cut(rest, []byte("\r\n"))
			if len(one) != 2 || one[0] != ':' {
				return nil
			}
			rest = more
			if i == 0 {
				all = append(all, 1)
			}
			all[j] = min(all[j], int64(one[1]-'0'))
		}
	}
	merged := resp.AppendArray(nil, len(all))
	for _, one := range all {
		merged = resp.AppendInt(merged, one)
	}
	return merged
}

// hasMessage reports whether reply is the error with this message.
func hasMessage(reply []byte, message string) bool {
	return len(reply) == len(message)+3 && string(reply[1:len(reply)-2]) == message
}

// integer parses a whole integer reply.
func integer(reply []byte) (int64, bool) {
	if len(reply) < 4 || reply[0] != ':' {
		return 0, false
	}
	return resp.ParseInt(reply[1 : len(reply)-2])
}

// arrayHeader parses the header of an array reply. rest is what follows the header.
func arrayHeader(reply []byte) (rest []byte, n int, ok bool) {
	if len(reply) == 0 || reply[0] != '*' {
		return nil, 0, false
	}
	return listHeader(reply)
}

// listHeader is arrayHeader for an array or a set.
func listHeader(reply []byte) (rest []byte, n int, ok bool) {
	if len(reply) < 4 || reply[0] != '*' && reply[0] != '~' {
		return nil, 0, false
	}
	for i, c := range reply {
		if c == '\r' && i+2 <= len(reply) {
			n, ok := resp.ParseInt(reply[1:i])
			return reply[i+2:], int(n), ok
		}
	}
	return nil, 0, false
}

// fanOut sends the parts of one call. Part i goes to node to[i]. The call gets its place in the
// order of the session's calls. bytes is the size of the request.
func (s *session) fanOut(parts []*part, to []*upstream.Node, keys, bytes int, m merge) bool {
	links := make([]*upstream.Link, len(to))
	for i, n := range to {
		var ok bool
		if parts[i].pin != nil || parts[i].replica {
			continue
		}
		if links[i], ok = s.takePathTo(n); !ok {
			return false
		}
	}
	if !s.lockUnheld() {
		return false
	}
	c := s.newCallLocked()
	c.bytes = bytes
	c.reads = s.onlyReads()
	c.fan = &fanout{call: c, parts: parts, left: len(parts), keys: keys, merge: m}
	for _, p := range parts {
		p.call = c
		p.Sink = p
		p.Prefix = s.caching
	}
	s.caching = nil
	s.pushLocked(c)
	s.mu.Unlock()
	for i, p := range parts {
		switch {
		case to[i] != nil:
			if s.current != nil && s.current.write {
				s.noteWrite(to[i])
			}
			if links[i] != nil {
				p.node = to[i]
				links[i].Submit(&p.Call)
				continue
			}
			p.send(to[i], false)
		case p.fixed || !p.retryLater():
			p.fail(msgSlotUnserved)
		}
	}
	return true
}
