package client

import (
	"sync"
	"time"

	"leash/proxy/chunk"
)

// Owner is what uses a Conn: the session of its client.
type Owner interface {
	// Go runs f on a goroutine. It returns false, and does nothing, when the server has stopped.
	Go(what string, f func()) bool
	// Wrote is called after a change of the output other than more output. The output's mutex is
	// held.
	Wrote()
	// OutputDropped is called when the socket cannot be used any more. Output of n bytes is
	// dropped. The output's mutex is held.
	OutputDropped(n int)
}

// maxAttempts bounds the writes of one Flush, because a link may wait for it.
const maxAttempts = 64

// Output is what waits to be written to a client, in order. Its user appends to the list. A mutex
// of its user guards it.
type Output struct {
	chunk.List
	socket    Socket
	owner     Owner
	mu        *sync.Mutex // guards the list and the fields below; not held during a write
	scheduled bool        // a goroutine will call Flush
	writing   bool        // a goroutine writes to the socket
	dropped   bool        // the socket cannot be used any more
	progress  time.Time   // when the goroutine that waits for the socket last wrote
	failed    error       // error of the write that failed
}

// Socket is what an Output writes to. A Conn is one.
type Socket interface {
	Try(p []byte) (int, error)
	Push(p []byte) (int, error)
}

// Init sets what an Output writes to, and the mutex that guards it.
func (o *Output) Init(s Socket, owner Owner, mu *sync.Mutex) { o.socket, o.owner, o.mu = s, owner, mu }

// ScheduleLocked reports whether the caller must call Flush. If not, there is nothing to write, or
// another goroutine is about to call it.
func (o *Output) ScheduleLocked() bool {
	if o.Len() == 0 || o.scheduled {
		return false
	}
	o.scheduled = true
	return true
}

// Flush writes waiting output to the socket, and does not block. When the socket is full, a
// goroutine of the owner writes the rest and ends when no output is left. The flag writing lets one
// goroutine write at a time. So no goroutine waits for a mutex behind a slow client.
func (o *Output) Flush() {
	o.mu.Lock()
	o.scheduled = false
	if o.writing || o.Len() == 0 || o.dropped {
		o.mu.Unlock()
		return
	}
	o.writing = true
	for range maxAttempts {
		if !o.writeLocked(false) {
			break
		}
	}
	if o.writing && !o.owner.Go("writer", o.write) {
		o.writing = false
	}
	o.mu.Unlock()
}

// writeLocked writes the first chunk without the mutex and reports whether to go on. It clears
// writing when nothing is left to write or the socket cannot be used. If wait is set, it waits
// until the socket takes a byte.
func (o *Output) writeLocked(wait bool) bool {
	p := o.Front()
	write := o.socket.Try
	if wait {
		write = o.socket.Push
	}
	o.mu.Unlock()
	n, err := write(p)
	o.mu.Lock()
	if o.dropped {
		o.writing = false
		o.owner.Wrote()
		return false
	}
	o.Advance(n)
	if err != nil {
		o.failed = err
		o.writing = false
		o.DropLocked()
		return false
	}
	if o.Len() == 0 {
		o.writing = false
	}
	o.owner.Wrote()
	return n == len(p) && o.writing
}

// write writes the rest of the output and waits for the socket. It ends when all is written or the
// socket cannot be used.
func (o *Output) write() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.progress = time.Now()
	for o.writing {
		o.writeLocked(true)
		o.progress = time.Now()
	}
	o.progress = time.Time{}
}

// DropLocked drops the output of a client whose socket cannot be used any more. Later output must
// be dropped too.
func (o *Output) DropLocked() {
	o.dropped = true
	n := o.Len()
	o.Clear()
	o.owner.OutputDropped(n)
}

// DroppedLocked reports whether output is dropped.
func (o *Output) DroppedLocked() bool { return o.dropped }

// FailedLocked returns the error of the write that failed, or nil.
func (o *Output) FailedLocked() error { return o.failed }

// BusyLocked reports whether output waits for the socket, or a goroutine writes.
func (o *Output) BusyLocked() bool { return o.Len() > 0 && !o.dropped || o.writing }

// StalledSinceLocked returns when the socket last took bytes, if output waits because the socket is
// full. Otherwise it is zero.
func (o *Output) StalledSinceLocked() time.Time {
	if !o.writing {
		return time.Time{}
	}
	return o.progress
}
