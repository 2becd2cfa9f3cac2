package faultproxy

import (
	"bytes"
	"strings"
)

// requests is the direction from the client to the target; it belongs to the goroutine that reads
// it.
type requests struct {
	conn *conn
	scan requestScanner
	buf  []byte // what is not forwarded yet
	raw  bool   // the connection is not parsed any more
	over bool   // a command has triggered a drop: nothing more is forwarded
}

// take forwards the commands that b completes.
func (r *requests) take(b []byte) {
	if r.over {
		return
	}
	r.buf = append(r.buf, b...)
	n := 0 // how many bytes are complete commands to forward
	for !r.raw && !r.over {
		size, err := r.scan.next(r.buf[n:])
		if err != nil {
			r.stopParsing()
			break
		}
		if size == 0 {
			break
		}
		request := r.buf[n : n+size]
		fault := r.faultFor(request)
		if fault != nil { // first forward what comes before it
			r.forward(n)
			n, request = 0, r.buf[:size]
		}
		r.announce(request, fault)
		if !r.over || fault.kind == dropAfter {
			n += size
		}
	}
	if r.raw {
		n = len(r.buf)
	}
	r.forward(n)
}

// faultFor returns the fault that the command triggers, or nil.
func (r *requests) faultFor(request []byte) *Fault {
	if len(Args(request)) == 0 {
		return nil // Redis ignores it
	}
	r.conn.proxy.stats.commands.Add(1)
	return r.conn.proxy.faultFor(request)
}

// announce tells the other direction what reply to expect, before the command is forwarded. It
// applies the fault to the command.
func (r *requests) announce(request []byte, fault *Fault) {
	args := Args(request)
	if len(args) == 0 {
		return
	}
	want := expected{fault: fault}
	switch strings.ToUpper(string(args[0])) {
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		want.confirmed = true
	case "MONITOR":
		r.raw, want.raw = true, true
	case "PSYNC", "SYNC":
		r.raw, want.raw = true, true
		r.conn.exempt.Store(true)
	case "CLIENT":
		if len(args) == 3 && strings.EqualFold(string(args[1]), "REPLY") && !strings.EqualFold(string(args[2]), "ON") {
			r.raw, want.raw = true, true
		}
	}
	if fault != nil {
		switch fault.kind {
		case dropBefore, dropAfter:
			r.over = true
		case holdBefore:
			r.conn.up.push(segment{gate: fault.released})
			fault.trigger()
			want.fault = nil
		}
	}
	r.conn.expect(want)
}

// stopParsing gives up telling commands apart.
func (r *requests) stopParsing() {
	r.raw = true
	r.conn.expect(expected{raw: true})
}

// forward queues the first n bytes that are not forwarded yet.
func (r *requests) forward(n int) {
	if n == 0 {
		return
	}
	r.conn.up.push(r.conn.segment(bytes.Clone(r.buf[:n]), goOn))
	r.buf = r.buf[:copy(r.buf, r.buf[n:])]
}

// flush forwards the part of a command that has come when no more will come.
func (r *requests) flush() {
	if !r.over {
		r.forward(len(r.buf))
	}
}
