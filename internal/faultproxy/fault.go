package faultproxy

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Match says whether a fault is meant for a command. It is given the whole command as it came,
// valid during the call; [Args] takes it apart. It may be called from several goroutines at once.
type Match func(request []byte) bool

// Fault is an order that waits for its command. It strikes once, unless an Option says otherwise,
// and then lets all others pass. Of several faults that match a command the one armed first takes
// it.
type Fault struct {
	proxy  *Proxy
	kind   kind
	match  Match
	ending Ending
	reply  string // of replaceReply

	left     atomic.Int64  // how many times it may still strike
	struck   atomic.Int64  // how many times it has
	first    chan struct{} // closed when it has struck for the first time
	released chan struct{} // closed by Release

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

// Times lets the fault strike n times instead of once.
func Times(n int) Option { return func(f *Fault) { f.left.Store(int64(n)) } }

// Always lets the fault strike until it is disarmed.
func Always() Option { return Times(math.MaxInt) }

// EndBy ends the connections that a drop ends in this way; the default is FIN.
func EndBy(how Ending) Option { return func(f *Fault) { f.ending = how } }

// DropBefore cuts the connection of a matching command without forwarding it: it was not executed.
func (p *Proxy) DropBefore(match Match, opts ...Option) *Fault {
	return p.arm(dropBefore, match, opts)
}

// DropAfter forwards a matching command, waits for its reply, swallows it and cuts the connection:
// it was executed (or refused) and nobody is told. Bytes after the command are not forwarded.
func (p *Proxy) DropAfter(match Match, opts ...Option) *Fault {
	return p.arm(dropAfter, match, opts)
}

// HoldBefore keeps a matching command, and all that follows it on its connection, until the fault
// is released. If the client has gone by then the command is forwarded all the same, and so
// executed late.
func (p *Proxy) HoldBefore(match Match, opts ...Option) *Fault {
	return p.arm(holdBefore, match, opts)
}

// HoldAfter forwards a matching command and keeps its reply, and all that follows it, until the
// fault is released.
func (p *Proxy) HoldAfter(match Match, opts ...Option) *Fault {
	return p.arm(holdAfter, match, opts)
}

// Replace forwards a matching command and delivers reply, whatever that is, in the place of its
// reply.
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

// Disarm makes the fault strike no more commands. Those it has taken it still drops or holds.
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

// Release lets go what the fault holds, and disarms it. For drops it is Disarm.
func (f *Fault) Release() {
	f.Disarm()
	f.releaseOnce.Do(func() { close(f.released) })
}

// Struck is closed once the fault has struck for the first time: the command was withheld
// (DropBefore, HoldBefore) or its whole reply has come and is withheld (DropAfter, HoldAfter).
func (f *Fault) Struck() <-chan struct{} { return f.first }

// Count is how many times the fault has struck.
func (f *Fault) Count() int { return int(f.struck.Load()) }

// Await returns nil when the fault has struck at least once, or an error after timeout.
func (f *Fault) Await(timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-f.first:
		return nil
	case <-timer.C:
		return fmt.Errorf("faultproxy: the fault has not struck within %v", timeout)
	}
}

// take claims one strike for a command that matches.
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

func (f *Fault) strike() {
	f.struck.Add(1)
	f.firstOnce.Do(func() { close(f.first) })
}

// faultFor returns the fault that takes the command, nil as a rule.
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
