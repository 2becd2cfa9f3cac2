package proxy

import (
	"leash/internal/guard"
	"leash/proxy/merge"
	"leash/proxy/upstream"
)

// fanout is a call that is split over several nodes or slots. Its parts are sent at the same time.
// When the last one has its reply, the replies are merged.
type fanout struct {
	call  *call
	parts []*part // only splitByKey changes it: it replaces one part by several
	left  int     // parts without a whole reply; guarded by session.mu
	merge merge.Func
}

// finished records that p has its whole reply. After the last part it has the replies merged. It
// returns the session if the caller must flush it.
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
	if f.quick() || !s.server.start("merge", func() { s.guard("merge", f.mergeLater) }) {
		return f.reply()
	}
	return nil
}

// quickMerge is the most bytes of replies that the reader of a link merges itself. For so few, a
// merge takes less than to start a goroutine.
const quickMerge = 4 << 10

// quick reports whether the reader of a link may merge the replies itself. All users of the link
// wait for it. A command about nodes has fixed parts. Its merge may take long even if the replies
// are small.
func (f *fanout) quick() bool {
	kept := 0
	for _, p := range f.parts {
		kept += p.kept
	}
	return kept <= quickMerge && !f.parts[0].fixed
}

// mergeLater merges the replies on a goroutine of its own.
func (f *fanout) mergeLater() {
	if flusher := f.reply(); flusher != nil {
		flusher.Flush()
	}
}

// reply merges the replies and gives the result to the call. A panic in the merge costs only this
// reply. It returns the session if the caller must flush it.
func (f *fanout) reply() upstream.Flusher {
	s := f.call.session
	replies, kept := make([]*merge.Reply, len(f.parts)), 0
	for i, p := range f.parts {
		replies[i] = p.got
		kept += p.kept
		p.got = nil
	}
	var reply merge.Reply
	if guard.Do(s.server.log, "merge", func() { reply = merge.Merge(f.merge, replies) }, "session", s.id) != nil {
		reply.Fail(merge.Mismatch)
	}
	s.addKept(-kept)
	return f.call.replyWith(reply.Split())
}

// fixedPart makes a part for one certain node. It follows no redirect.
func fixedPart(request []byte) *part {
	p := &part{slot: anySlot, fixed: true}
	p.Request = request
	return p
}

// fanOut sends the parts of one call. Part i goes to node to[i]. The call gets its place in the
// order of the session's calls. bytes is the size of the request.
func (s *session) fanOut(parts []*part, to []*upstream.Node, bytes int, m merge.Func) bool {
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
	c := s.calls.take(s)
	c.bytes = bytes
	c.reads, c.script = s.onlyReads(), false
	c.fan = &fanout{call: c, parts: parts, left: len(parts), merge: m}
	caching := s.takeCaching()
	for _, p := range parts {
		p.call = c
		p.Sink = p
		if p.got == nil {
			p.got = new(merge.Reply)
		}
		p.Prefix = caching
	}
	s.calls.push(c)
	s.mu.Unlock()
	for i, p := range parts {
		switch {
		case to[i] != nil:
			if s.current != nil && s.current.Write {
				s.written.add(to[i])
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
