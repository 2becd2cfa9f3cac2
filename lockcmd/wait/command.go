package wait

import (
	"sync"
	"time"
)

// Command is the command of one connection, which waits now and then. CLIENT UNBLOCK may end its
// wait early. The zero value does not wait. It is safe for concurrent use, but only one goroutine,
// which runs the command, may begin and end waits and call Unblocked.
type Command struct {
	mu      sync.Mutex
	current *commandWait  // nil while the command does not wait
	waited  time.Duration // in the waits of this command that have ended
}

// commandWait is one wait. All but done and began is guarded by Command.mu.
type commandWait struct {
	done      chan struct{} // closed when the wait is to end
	began     time.Time
	unblocked bool
	failed    bool   // the answer is an error
	onEnd     func() // called too, if not nil; does not block
}

func (c *Command) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = &commandWait{done: make(chan struct{}), began: time.Now()}
}

func (c *Command) end() *commandWait {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.current
	if c.current = nil; w != nil {
		c.waited += time.Since(w.began)
	}
	return w
}

// Reset begins a new command, which has not waited.
func (c *Command) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited = 0
}

// Waited is for how long the command has waited, in all its waits.
func (c *Command) Waited() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return c.waited
	}
	return c.waited + time.Since(c.current.began)
}

// Unblock ends the current wait. The command is answered as if its time were over or, with fail,
// with an error. A grant at that moment is still answered as a grant. Unblock reports whether it
// ended a wait. It does not block.
func (c *Command) Unblock(fail bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.current
	if w == nil || w.unblocked {
		return false
	}
	w.unblocked, w.failed = true, fail
	close(w.done)
	if w.onEnd != nil {
		w.onEnd()
	}
	return true
}

// OnUnblock sets a function that is called when the current wait is to end. end must not block.
func (c *Command) OnUnblock(end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.unblocked {
		end()
		return
	}
	c.current.onEnd = end
}

// Waits reports whether the command waits, and since when.
func (c *Command) Waits() (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return since, false
	}
	return c.current.began, true
}

// Unblocked is closed when the current wait is to end. It is nil when there is no wait.
func (c *Command) Unblocked() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil
	}
	return c.current.done
}
