package call

import (
	"leash/internal/guard"
	"leash/proxy/links"
	"leash/proxy/merge"
)

// fanout is a call that is split over several nodes or slots. Its parts are sent at the same time.
// When the last one has its reply, the replies are merged.
type fanout struct {
	call  *Call
	parts []*Part // only splitByKey changes it: it replaces one part by several
	left  int     // parts without a whole reply; guarded by the session's mutex
	merge merge.Func
}

// Shares is a command that several nodes or slots get a part of.
type Shares struct {
	Parts  []*Part
	Bytes  int    // of the request
	Prefix []byte // CLIENT CACHING, if it goes before the command
	Reads  bool   // it only reads and may be executed twice
	Merge  merge.Func
}

// PushShares makes a call of several parts and adds it to the queue. The caller then sends the
// parts. It waits while the session is suspended. It returns false when the session ends.
func (q *Queue) PushShares(s *Shares) bool {
	if !q.lockForPush() {
		return false
	}
	defer q.mu.Unlock()
	c := q.takeLocked()
	c.bytes, c.reads = s.Bytes, s.Reads
	c.fan = &fanout{call: c, parts: s.Parts, left: len(s.Parts), merge: s.Merge}
	for _, p := range s.Parts {
		p.join(c, s.Prefix)
	}
	q.pushLocked(c)
	return true
}

// finished records that p has its whole reply. After the last part it has the replies merged. It
// returns the output if the caller must flush it.
func (f *fanout) finished(p *Part) links.Flusher {
	q := f.call.queue
	q.mu.Lock()
	f.left--
	last := f.left == 0
	q.mu.Unlock()
	if !last {
		return nil
	}
	if f.quick() || !q.session.Go("merge", func() { links.Flush(f.reply()) }) {
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

// reply merges the replies and gives the result to the call. A panic in the merge costs only this
// reply. It returns the output if the caller must flush it.
func (f *fanout) reply() links.Flusher {
	q := f.call.queue
	replies, kept := make([]*merge.Reply, len(f.parts)), 0
	for i, p := range f.parts {
		replies[i] = p.got
		kept += p.kept
		p.got = nil
	}
	var reply merge.Reply
	if guard.Do(q.server.Log, "merge", func() { reply = merge.Merge(f.merge, replies) }, "session", q.ID) != nil {
		reply.Fail(merge.Mismatch)
	}
	q.addKept(-kept)
	start, rest := reply.Split()
	if len(start) > 0 && start[0] == '-' {
		q.session.Failed(f.call.class)
	}
	return f.call.add(start, rest, true)
}

// guard runs f. A panic in f ends only the session.
func (q *Queue) guard(what string, f func()) {
	if guard.Do(q.server.Log, what, f, "session", q.ID) != nil {
		q.session.Fail()
	}
}
