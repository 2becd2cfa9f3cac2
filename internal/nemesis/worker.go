package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"leash/internal/redistest"
)

// keysOf are the locks of a run, of these kinds: few, so that they are contended.
func keysOf(kinds []string) (keys []string) {
	for _, key := range []string{"lock:1", "lock:2", "lock:3", "lock:4", "fair:1", "fair:2", "rw:1", "rw:2", "sem:1", "sem:2"} {
		if kind, _, _ := strings.Cut(key, ":"); slices.Contains(kinds, kind) {
			keys = append(keys, key)
		}
	}
	return keys
}

// worker is a client that takes, holds and releases locks until it is told to stop.
type worker struct {
	number  int
	addrs   []string
	keys    []string
	rnd     *rand.Rand
	history *history
	tally   *tally
	owners  int
}

// tally counts what the workers met.
type tally struct {
	mu    sync.Mutex
	count map[string]int
	wrong []string // what no fault explains
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count[what]++
}

func (t *tally) blame(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = append(t.wrong, fmt.Sprintf(format, args...))
}

// conn is a connection of a worker's.
type conn struct{ *redistest.Client }

// do sends a command, and waits for its reply no longer than until.
func (c conn) do(until time.Time, args ...string) (reply string, sent time.Time, err error) {
	c.Timeout = max(time.Until(until), time.Millisecond)
	sent = time.Now()
	reply, err = c.Do(args...)
	return strings.TrimSuffix(reply, "\r\n"), sent, err
}

func (w *worker) dial() (conn, bool) {
	c, err := redistest.Dial(pick(w.rnd, w.addrs))
	if err != nil {
		w.tally.add("no connection")
		time.Sleep(50 * time.Millisecond)
		return conn{}, false
	}
	return conn{c}, true
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		c, ok := w.dial()
		if !ok {
			continue
		}
		for rounds := 1 + w.rnd.IntN(8); rounds > 0 && ctx.Err() == nil && w.round(c); rounds-- {
			time.Sleep(time.Duration(w.rnd.IntN(20)) * time.Millisecond)
		}
		w.leave(c)
	}
}

// leave ends a connection in order or, now and then, by RST.
func (w *worker) leave(c conn) {
	if tcp, ok := c.Conn().(*net.TCPConn); ok && w.rnd.IntN(8) == 0 {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// round takes a lock once, holds and releases it. It returns false when the connection is not to be used any more.
func (w *worker) round(c conn) (goOn bool) {
	key := pick(w.rnd, w.keys)
	if w.rnd.IntN(100) == 0 && !strings.HasPrefix(key, "sem:") {
		return w.breaks(c, key)
	}
	r := w.request(key)
	reply, sent, err := c.do(time.Now().Add(r.wait+10*time.Second), r.args...)
	got := time.Now()
	switch {
	case err != nil:
		w.tally.add("acquire without reply")
		return false
	case reply == "$-1":
		w.tally.add("taken")
		return true
	case strings.HasPrefix(reply, "-"):
		w.errored("acquire", reply)
		return true
	}
	token, number := reply[1:], int64(0)
	if r.mode == "permit" {
		_, token, _ = strings.Cut(reply, "\r\n")
	} else if number, err = strconv.ParseInt(token, 10, 64); err != nil {
		w.tally.blame("%v was answered %q", r.args, reply)
		return false
	}
	b := w.history.believe(key, r.mode, r.owner, token, number, r.lease, sent, got)
	w.tally.add("granted " + r.mode)
	if got.Sub(sent) > ttl/4 && !w.prove(c, b) { // the grant may be old
		return false
	}
	if !w.hold(c, b) {
		return false
	}
	carrier := c
	if !b.over && b.owner != "" {
		if carrier, goOn = w.more(c, b); !goOn {
			return false
		}
	}
	if carrier != c {
		w.release(carrier, b)
		w.leave(carrier)
		return false
	}
	return w.release(c, b)
}

// errored counts an error reply, and blames Leash for one that no fault explains.
func (w *worker) errored(what, reply string) {
	word, _, _ := strings.Cut(strings.TrimPrefix(reply, "-"), " ")
	w.tally.add(what + " " + word)
	if word == "ERR" && !strings.Contains(reply, "shutting down") || word == "WRONGTYPE" || word == "CROSSSLOT" {
		w.tally.blame("%s was answered %s", what, reply)
	}
}

// request is an ACQUIRE to be sent.
type request struct {
	args  []string
	mode  string
	owner string
	lease time.Duration
	wait  time.Duration
}

func (w *worker) request(key string) request {
	r := request{mode: "plain"}
	verb, option := "LOCK.ACQUIRE", ""
	switch kind, _, _ := strings.Cut(key, ":"); {
	case kind == "sem":
		verb, r.mode = "SEM.ACQUIRE", "permit"
	case kind == "fair":
		r.mode, option = "fair", "FAIR"
	case kind == "rw" && w.rnd.IntN(3) == 0:
		r.mode, option = "write", "WRITE"
	case kind == "rw":
		r.mode, option = "read", "READ"
	}
	r.args = []string{verb, key}
	if option != "" {
		r.args = append(r.args, option)
	}
	if w.rnd.IntN(4) > 0 {
		r.wait = time.Duration(1+w.rnd.IntN(4000)) * time.Millisecond
		r.args = append(r.args, "BLOCK", strconv.FormatInt(r.wait.Milliseconds(), 10))
	}
	if w.rnd.IntN(4) == 0 {
		r.lease = time.Duration(200+w.rnd.IntN(2000)) * time.Millisecond
		r.args = append(r.args, "LEASE", strconv.FormatInt(r.lease.Milliseconds(), 10))
	}
	if r.mode != "permit" && w.rnd.IntN(3) == 0 {
		w.owners++
		r.owner = fmt.Sprintf("worker:%d.%d", w.number, w.owners)
		r.args = append(r.args, "OWNER", r.owner)
	}
	return r
}

// prove asks for a proof of the hold. It returns false when the belief is over, and with it the connection.
func (w *worker) prove(c conn, b *belief) bool {
	args := []string{"PING"}
	if b.mode != "permit" && w.rnd.IntN(2) == 0 {
		args = []string{"LOCK.TTL", b.key, "TOKEN", b.token}
	}
	reply, sent, err := c.do(b.until, args...)
	now := time.Now()
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout(), err == nil && now.After(b.until):
		b.ends(b.until, time.Time{})
		w.tally.add("lost: nothing heard")
	case err != nil:
		b.noticed()
		w.tally.add("lost: connection ended")
	case reply == "+PONG":
		b.proved(sent, ttl/2)
		return true
	default:
		if ms, err := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64); err == nil && ms > 0 {
			b.proved(sent, time.Duration(ms)*time.Millisecond)
			return true
		}
		b.noticed()
		w.tally.add("lost: " + args[0] + " says so")
	}
	return false
}

// hold keeps the lock for a while, now and then for longer than a TTL.
func (w *worker) hold(c conn, b *belief) bool {
	length := time.Duration(w.rnd.IntN(400)) * time.Millisecond
	if w.rnd.IntN(10) == 0 {
		length += ttl + time.Second
	}
	for stop := time.Now().Add(length); time.Now().Before(stop); {
		time.Sleep(time.Duration(10+w.rnd.IntN(100)) * time.Millisecond)
		if time.Now().After(b.until) {
			b.ends(b.until, time.Time{})
			w.tally.add("lease over")
			return b.until.Equal(b.lease)
		}
		if !w.prove(c, b) {
			return false
		}
	}
	return true
}

// breaks ends whatever hold of key there is: its holder must have been told before.
func (w *worker) breaks(c conn, key string) (goOn bool) {
	reply, sent, err := c.do(time.Now().Add(10*time.Second), "LOCK.BREAK", key)
	if err != nil || reply == ":2" { // nobody confirmed that the holder was told
		w.history.forget(key, sent)
	}
	switch {
	case err != nil:
		w.tally.add("break without reply")
	case reply[0] == '-':
		w.errored("break", reply)
	default:
		w.tally.add("break " + reply)
	}
	return err == nil
}

// more is what an owner with a name can do beside: take the lock again, or take the hold along to another connection.
func (w *worker) more(c conn, b *belief) (carrier conn, goOn bool) {
	if w.rnd.IntN(2) == 0 {
		return c, w.again(c, b)
	}
	other, ok := w.dial()
	if !ok {
		return c, true
	}
	args := []string{"LOCK.ATTACH", b.key, "OWNER", b.owner, "TOKEN", b.token}
	if b.mode == "read" || b.mode == "write" {
		args = append(args, strings.ToUpper(b.mode))
	}
	reply, sent, err := other.do(b.until, args...)
	if err == nil && reply == ":"+b.token {
		b.proved(sent, ttl/2)
		w.tally.add("attached")
		if !w.hold(other, b) {
			w.leave(other)
			return c, false
		}
		return other, true
	}
	other.Close()
	if err != nil {
		w.tally.add("attach without reply")
		b.noticed() // it may hang on the connection that is gone
		return c, false
	}
	w.errored("attach", reply)
	return c, w.prove(c, b)
}

// again takes the lock once more, and gives that count back.
func (w *worker) again(c conn, b *belief) (goOn bool) {
	args := []string{"LOCK.ACQUIRE", b.key, "OWNER", b.owner}
	if b.mode != "plain" {
		args = append(args, strings.ToUpper(b.mode))
	}
	if !b.lease.IsZero() {
		args = append(args, "LEASE", "1000") // which does not shorten what remains
	}
	reply, sent, err := c.do(b.until, args...)
	if err != nil {
		b.noticed()
		return false
	}
	if reply != ":"+b.token {
		w.errored("again", reply)
		return w.prove(c, b)
	}
	b.note(again, 0, sent, time.Now())
	at := time.Now()
	reply, _, err = c.do(b.until, "LOCK.RELEASE", b.key, "TOKEN", b.token)
	if err != nil {
		b.noticed()
		return false
	}
	if reply != ":0" {
		w.errored("inner release", reply)
		b.ends(at, time.Time{})
		return false
	}
	b.note(inner, 0, at, time.Now())
	w.tally.add("entered again")
	return true
}

// release ends a hold in one of the ways there are.
func (w *worker) release(c conn, b *belief) (goOn bool) {
	if b.over {
		return true
	}
	verb, token := "LOCK.RELEASE", []string{"TOKEN", b.token}
	if b.mode == "permit" {
		verb, token = "SEM.RELEASE", []string{b.token}
	}
	switch w.rnd.IntN(6) {
	case 0: // by the end of the connection
		b.ends(time.Now(), time.Time{})
		return false
	case 1: // by another connection, perhaps of the other Leash
		other, ok := w.dial()
		if !ok {
			return w.give(c, b, verb, token)
		}
		defer other.Close()
		return w.give(other, b, verb, token)
	case 2:
		return w.give(c, b, verb, nil)
	}
	return w.give(c, b, verb, token)
}

func (w *worker) give(c conn, b *belief, verb string, more []string) (goOn bool) {
	at := time.Now()
	reply, _, err := c.do(at.Add(10*time.Second), append([]string{verb, b.key}, more...)...)
	switch {
	case err != nil:
		w.tally.add("release without reply")
	case reply == ":1":
		b.ends(at, time.Now())
		w.tally.add("released")
		return true
	default:
		w.errored("release", reply)
	}
	b.ends(at, time.Time{})
	return err == nil
}
