package pubsub

import (
	"bytes"

	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// fanBatch is how many receivers get a message before mu is unlocked once.
const fanBatch = 256

// Receive implements links.Receiver. It hands out what Redis sends.
func (l *line) Receive(raw []byte, oldest *links.Request) (answered bool, err error) {
	if raw[0] == '>' { // apart from that, messages are the same in RESP2
		raw[0] = '*'
	}
	f := parseFrame(raw)
	var r *request
	if oldest != nil {
		r, _ = oldest.Sink.(*request)
	}
	l.hub.x.mu.Lock()
	defer l.hub.x.mu.Unlock()
	if answered, err = l.actLocked(&f, r); answered {
		l.finishLocked(r, nil)
	}
	return answered, err
}

// Flush implements links.Receiver. It lets every client that got something write it, once.
func (l *line) Flush() {
	for i, f := range l.touched {
		l.touched[i] = nil
		f.Flush()
	}
	l.touched = l.touched[:0]
}

// actLocked handles a frame. r is the oldest request, or nil; answered reports whether it has its
// whole answer.
func (l *line) actLocked(f *frame, r *request) (answered bool, err error) {
	switch f.form {
	case formMessage:
		l.fanOutLocked(f)
		return false, nil
	case formJoined:
		return l.joinedLocked(f, r)
	case formLeft:
		return l.leftLocked(f, r)
	case formError:
		return l.errorLocked(f, r)
	case formPong:
		if r != nil && r.ping {
			return true, nil
		}
	}
	return false, links.ErrUnasked
}

// fanOutLocked gives a message to all receivers, if the messages of this line count. It unlocks the
// mutex at intervals, because links need it to correct counts. A client that joins during that time
// gets its confirmation later, so the message need not reach it.
func (l *line) fanOutLocked(f *frame) {
	h := l.hub
	e := h.entries[f.kind][string(f.name)]
	if e == nil || !e.acceptsLocked(l, f, links.At(l.link.Heard())) {
		return
	}
	for r := range e.receivers {
		l.receivers = append(l.receivers, r)
	}
	for i, r := range l.receivers {
		if i%fanBatch == fanBatch-1 {
			h.x.mu.Unlock()
			h.x.mu.Lock()
		}
		if _, there := e.receivers[r]; !there { // it has left since
			continue
		}
		if flusher := r.message(f); flusher != nil {
			l.touched = append(l.touched, flusher)
		}
	}
	clear(l.receivers)
	l.receivers = l.receivers[:0]
}

func (l *line) joinedLocked(f *frame, r *request) (answered bool, err error) {
	name := string(f.name)
	if !r.isConfirmed(f, true) {
		return false, links.ErrUnasked
	}
	if l.state[f.kind][name] == asked {
		l.state[f.kind][name] = joined
	}
	h := l.hub
	if e := h.entries[f.kind][name]; e != nil && e.source != l {
		if lines, _ := h.targetsLocked(f.kind, name); e.source == nil || len(lines) > 0 && lines[0] == l {
			interrupted := e.source == nil
			if e.source != nil {
				h.recheckLocked() // the other line no longer needs it
			}
			e.moveLocked(l, r.asked)
			for r := range e.receivers {
				if flusher := r.confirmed(interrupted); flusher != nil {
					l.touched = append(l.touched, flusher)
				}
			}
		}
	}
	return r.countConfirmed(), nil
}

// leftLocked handles the end of a subscription. When a slot moves, Redis ends its sharded
// subscriptions without a request.
func (l *line) leftLocked(f *frame, r *request) (answered bool, err error) {
	name := string(f.name)
	if r.isConfirmed(f, false) {
		if l.state[f.kind][name] == leaving {
			delete(l.state[f.kind], name)
		}
		return r.countConfirmed(), nil
	}
	if f.kind != Shard {
		return false, links.ErrUnasked
	}
	l.forgetLocked(f.kind, name)
	l.hub.x.up.Refresh()
	l.hub.recheckLocked()
	return false, nil
}

// forgetLocked records that Redis does not have a subscription on this line.
func (l *line) forgetLocked(kind Kind, name string) {
	delete(l.state[kind], name)
	if e := l.hub.entries[kind][name]; e != nil && e.source == l {
		e.source = nil
	}
}

// isConfirmed reports whether a frame confirms the next name of r, which may be nil.
func (r *request) isConfirmed(f *frame, join bool) bool {
	return r != nil && !r.ping && r.join == join && r.kind == f.kind && r.names[r.had] == string(f.name)
}

// countConfirmed counts a name. It reports whether it was the last one.
func (r *request) countConfirmed() bool {
	r.had++
	return r.had == len(r.names)
}

// errorLocked handles an error reply. It may come when its request seems to have ended already.
// When a slot has moved, Redis ends the subscription without a request, and SUNSUBSCRIBE takes that
// for its confirmation. Then Redis answers SUNSUBSCRIBE with MOVED.
func (l *line) errorLocked(f *frame, r *request) (answered bool, err error) {
	moved, ok := slots.ParseRedirect(f.raw)
	if ok || resp.HasCode(f.raw, "CLUSTERDOWN") {
		if r == nil || r.ping || r.kind != Shard || ok && moved.Slot != slots.Of([]byte(r.names[0])) {
			return false, nil
		}
	}
	if r == nil {
		return false, links.ErrUnasked
	}
	for _, name := range r.names {
		switch st := l.state[r.kind][name]; {
		case r.join && st == asked, !r.join && st == leaving && r.kind == Shard:
			l.forgetLocked(r.kind, name)
		case !r.join && st == leaving:
			l.state[r.kind][name] = joined
		}
	}
	r.refusal = bytes.Clone(f.raw)
	// a user without the right to PING may subscribe
	if !r.join && !r.ping && isLasting(f.raw) && !l.keepsLocked(len(r.names)) {
		err = errCannotUnsubscribe
	}
	return true, err
}
