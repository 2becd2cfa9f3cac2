package faultproxy

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Match reports whether a fault applies to a command. It gets the whole command as it came, valid
// during the call. [Args] splits it. Several goroutines may call it at once.
type Match func(request []byte) bool

// Fault is a fault that a matching command triggers. The first matching command triggers it, and
// later ones pass, unless an Option says otherwise. If several faults match a command, it triggers
// the one that was armed first.
type Fault struct {
	proxy  *Proxy
	kind   kind
	match  Match
	ending Ending
	reply  string // of replaceReply

	left      atomic.Int64  // how many times it may still be triggered
	triggered atomic.Int64  // how often it was triggered
	first     chan struct{} // closed when it is triggered for the first time
	released  chan struct{} // closed by Release

	firstOnce, releaseOnce sync.Once
}

type kind int

const (
	dropBefore kind = iota
	dropAfter
	holdBefore
	holdAfter
	replaceReply
)

// Option changes a fault as it is armed.
type Option func(*Fault)

// Times lets the fault be triggered n times instead of once.
func Times(n int) Option { return func(f *Fault) { f.left.Store(int64(n)) } }

// Always lets the fault be triggered until it is disarmed.
func Always() Option { return Times(math.MaxInt) }

// EndBy ends the connections that a drop ends in this way; the default is FIN.
func EndBy(how Ending) Option { return func(f *Fault) { f.ending = how } }

// DropBefore cuts the connection of a matching command without forwarding it: it was not executed.
func (p *Proxy) DropBefore(match Match, opts ...Option) *Fault {
	return p.arm(dropBefore, match, opts)
}

// DropAfter forwards a matching command, waits for its reply, discards the reply and cuts the
// connection. The command was executed (or refused), and the client does not learn that. Bytes
// after the command are not forwarded.
func (p *Proxy) DropAfter(match Match, opts ...Option) *Fault {
	return p.arm(dropAfter, match, opts)
}

// HoldBefore holds a matching command, and all that follows it on its connection, until the fault
// is released. If the client has disconnected before the release, the command is still forwarded
// and executed.
func (p *Proxy) HoldBefore(match Match, opts ...Option) *Fault {
	return p.arm(holdBefore, match, opts)
}

// HoldAfter forwards a matching command. It holds the reply, and all that follows it, until the
// fault is released.
func (p *Proxy) HoldAfter(match Match, opts ...Option) *Fault {
	return p.arm(holdAfter, match, opts)
}

// Replace forwards a matching command and delivers reply instead of its reply. reply need not be
// valid RESP.
func (p *Proxy) Replace(match Match, reply string, opts ...Option) *Fault {
	return p.arm(replaceReply, match, append(opts, func(f *Fault) { f.reply = reply }))
}

func (p *Proxy) arm(k kind, match Match, opts []Option) *Fault {
	f := &Fault{proxy: p, kind: k, match: match, first: make(chan struct{}), released: make(chan struct{})}
	f.left.Store(1)
	for _, opt := range opts {
		opt(f)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(slices.Clip(p.faults), f)
	return f
}

// Disarm makes the fault ignore further commands. Commands that have triggered it are still dropped
// or held.
func (f *Fault) Disarm() {
	f.left.Store(0)
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	kept := make([]*Fault, 0, len(f.proxy.faults))
	for _, other := range f.proxy.faults {
		if other != f {
			kept = append(kept, other)
		}
	}
	f.proxy.faults = kept
}

// Release forwards what the fault holds, and disarms it. For drops it is the same as Disarm.
func (f *Fault) Release() {
	f.Disarm()
	f.releaseOnce.Do(func() { close(f.released) })
}

// Triggered is closed when the fault is triggered for the first time. At that time the command was
// withheld (DropBefore, HoldBefore), or its whole reply has come and is withheld (DropAfter,
// HoldAfter).
func (f *Fault) Triggered() <-chan struct{} { return f.first }

// Count is how many times the fault was triggered.
func (f *Fault) Count() int { return int(f.triggered.Load()) }

// Await returns nil when the fault has been triggered at least once, or an error after timeout.
func (f *Fault) Await(timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-f.first:
		return nil
	case <-timer.C:
		return fmt.Errorf("faultproxy: the fault was not triggered within %v", timeout)
	}
}

// take counts down left for a command that matches. It returns false if the fault is used up.
func (f *Fault) take(request []byte) bool {
	if f.left.Load() <= 0 || !f.match(request) {
		return false
	}
	for {
		left := f.left.Load()
		if left <= 0 {
			return false
		}
		if f.left.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

func (f *Fault) trigger() {
	f.triggered.Add(1)
	f.firstOnce.Do(func() { close(f.first) })
}

// faultFor returns the fault that the command triggers, or nil.
func (p *Proxy) faultFor(request []byte) *Fault {
	p.mu.Lock()
	faults := p.faults
	p.mu.Unlock()
	for _, f := range faults {
		if f.take(request) {
			return f
		}
	}
	return nil
}
