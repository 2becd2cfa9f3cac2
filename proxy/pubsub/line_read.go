package pubsub

import (
	"bytes"
	"net"
	"time"

	"leash/proxy/resp"
	"leash/proxy/slots"
)

const (
	readBuffer = 64 << 10
	fanBatch   = 256 // receivers that get a message before mu is unlocked once
)

// reader hands out what Redis sends until the connection ends.
func (l *line) reader(conn net.Conn) error {
	defer l.flush() // also after an error, for clients that got something
	scan := resp.Scanner{RESP2: !l.hub.lane.RESP3}
	most := 2 * int(l.hub.x.up.MaxBulk()) // a message has a channel and a payload
	buf := make([]byte, readBuffer)
	filled, scanned := 0, 0 // buf[:scanned] is the beginning of a frame
	for {
		n, err := conn.Read(buf[filled:])
		if err != nil {
			return err
		}
		l.readAt = time.Now()
		l.heard.Store(int64(l.readAt.Sub(l.began)))
		filled += n
		start := 0
		for scanned < filled {
			n, done, err := scan.Scan(buf[scanned:filled])
			if err != nil {
				return err
			}
			scanned += n
			if !done {
				break
			}
			if buf[start] == '>' { // apart from that, messages are the same in RESP2
				buf[start] = '*'
			}
			f := parseFrame(buf[start:scanned])
			if err := l.act(&f); err != nil {
				return err
			}
			start = scanned
		}
		l.flush()
		if filled-start > most {
			return resp.ErrFrame
		}
		buf, filled, scanned = keep(buf, start, filled, scanned)
	}
}

// flush lets every client that got something write it, once.
func (l *line) flush() {
	for i, f := range l.touched {
		l.touched[i] = nil
		f.Flush()
	}
	l.touched = l.touched[:0]
}

// keep moves the unfinished frame to the front of the buffer and makes room after it.
func keep(buf []byte, start, filled, scanned int) ([]byte, int, int) {
	rest := filled - start
	switch {
	case rest == len(buf):
		next := make([]byte, 2*len(buf))
		copy(next, buf)
		return next, rest, scanned - start
	case rest == 0 && len(buf) > readBuffer:
		return make([]byte, readBuffer), 0, 0
	case start > 0:
		copy(buf, buf[start:filled])
	}
	return buf, rest, scanned - start
}

func (l *line) act(f *frame) error {
	x := l.hub.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(l.waiting) > 0 && l.waiting[0].login != nil && (f.form == formPong || f.form == formError) {
		l.loggedInLocked(f)
		return nil
	}
	switch f.form {
	case formMessage:
		l.fanOutLocked(f)
		return nil
	case formJoined:
		return l.joinedLocked(f)
	case formLeft:
		return l.leftLocked(f)
	case formError:
		return l.errorLocked(f)
	case formPong:
		if len(l.waiting) > 0 && l.waiting[0].ping {
			l.answeredLocked(nil)
			return nil
		}
	}
	return errUnasked
}

func (l *line) loggedInLocked(f *frame) {
	reply, addr := bytes.Clone(f.raw), l.addr
	password := l.login.Answer(reply)
	l.answeredLocked(nil)
	l.touched = append(l.touched, unlocked(func() { l.hub.x.up.Dialer.NoteLogin(addr, reply, password) }))
}

// fanOutLocked gives a message to all receivers, if the messages of this line count. It unlocks the
// mutex at intervals, because links need it to correct counts. A client that joins during that time
// gets its confirmation later, so the message need not reach it.
func (l *line) fanOutLocked(f *frame) {
	h := l.hub
	e := h.entries[f.kind][string(f.name)]
	if e == nil || !e.acceptsLocked(l, f, l.readAt) {
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

func (l *line) joinedLocked(f *frame) error {
	name := string(f.name)
	if !l.confirmsLocked(f, true) {
		return errUnasked
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
			e.moveLocked(l, l.waiting[0].asked)
			for r := range e.receivers {
				if flusher := r.confirmed(interrupted); flusher != nil {
					l.touched = append(l.touched, flusher)
				}
			}
		}
	}
	l.confirmedLocked()
	return nil
}

// leftLocked handles the end of a subscription. When a slot moves, Redis ends its sharded
// subscriptions without a request.
func (l *line) leftLocked(f *frame) error {
	name := string(f.name)
	if l.confirmsLocked(f, false) {
		if l.state[f.kind][name] == leaving {
			delete(l.state[f.kind], name)
		}
		l.confirmedLocked()
		return nil
	}
	if f.kind != Shard {
		return errUnasked
	}
	l.forgetLocked(f.kind, name)
	l.hub.x.up.Refresh()
	l.hub.recheckLocked()
	return nil
}

// forgetLocked records that Redis does not have a subscription on this line.
func (l *line) forgetLocked(kind Kind, name string) {
	delete(l.state[kind], name)
	if e := l.hub.entries[kind][name]; e != nil && e.source == l {
		e.source = nil
	}
}

func (l *line) confirmsLocked(f *frame, join bool) bool {
	if len(l.waiting) == 0 {
		return false
	}
	r := l.waiting[0]
	return !r.ping && r.login == nil && r.join == join && r.kind == f.kind && r.names[r.had] == string(f.name)
}

func (l *line) confirmedLocked() {
	r := l.waiting[0]
	if r.had++; r.had == len(r.names) {
		l.answeredLocked(nil)
	}
}

func (l *line) answeredLocked(refusal []byte) {
	r := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	if r.ping {
		l.pings--
	}
	r.refusal = refusal
	l.finishLocked(r, nil)
}

// errorLocked handles an error reply. It may come when its request seems to have ended already.
// When a slot has moved, Redis ends the subscription without a request, and SUNSUBSCRIBE takes that
// for its confirmation. Then Redis answers SUNSUBSCRIBE with MOVED.
func (l *line) errorLocked(f *frame) error {
	moved, ok := slots.ParseRedirect(f.raw)
	if ok || resp.HasCode(f.raw, "CLUSTERDOWN") {
		if len(l.waiting) == 0 {
			return nil
		}
		r := l.waiting[0]
		if r.ping || r.kind != Shard || ok && moved.Slot != slots.Of([]byte(r.names[0])) {
			return nil
		}
	}
	if len(l.waiting) == 0 {
		return errUnasked
	}
	r := l.waiting[0]
	for _, name := range r.names {
		switch st := l.state[r.kind][name]; {
		case r.join && st == asked, !r.join && st == leaving && r.kind == Shard:
			l.forgetLocked(r.kind, name)
		case !r.join && st == leaving:
			l.state[r.kind][name] = joined
		}
	}
	l.answeredLocked(bytes.Clone(f.raw))
	if !r.join && isLasting(f.raw) {
		return errCannotUnsubscribe
	}
	return nil
}
