package clients

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"leash/proxy/resp"
)

const (
	msgPauseTimeout  = "ERR timeout is not an integer or out of range"
	msgPauseNegative = "ERR timeout is negative"
	msgPauseMode     = "ERR CLIENT PAUSE mode must be WRITE or ALL"
	msgPauseArgs     = "ERR unknown subcommand or wrong number of arguments for '%s'. Try CLIENT HELP."
)

// Pause is one CLIENT PAUSE. It delays commands of clients until a time. It is immutable.
type Pause struct {
	Until   time.Time
	Changed chan struct{} // closed when the pause is replaced or ended
	all     bool          // all commands, not only those that may write
}

// Pauses has the current pause. The zero value has none. It is safe for concurrent use.
type Pauses struct {
	current atomic.Pointer[Pause] // nil: none. It may be over, so every reader checks the time
	mu      sync.Mutex            // guards changes
}

// Any reports whether there may be a pause.
func (p *Pauses) Any() bool { return p.current.Load() != nil }

// Delaying returns the pause that delays a command, or nil. writes says whether the command may
// write.
func (p *Pauses) Delaying(writes bool) *Pause {
	for {
		one := p.current.Load()
		switch {
		case one == nil || !one.all && !writes:
			return nil
		case time.Now().Before(one.Until):
			return one
		}
		p.end(one)
	}
}

// extend combines a new pause with the current one. The result ends at the later of the two times.
// It delays every command that one of the two delays.
func (p *Pauses) extend(all bool, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &Pause{all: all, Until: until, Changed: make(chan struct{})}
	old := p.current.Load()
	if old != nil && time.Now().Before(old.Until) {
		next.all = all || old.all
		if old.Until.After(until) {
			next.Until = old.Until
		}
	}
	p.replace(old, next)
}

// end ends the current pause if it is which. A nil which means any pause.
func (p *Pauses) end(which *Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.current.Load(); which == nil || old == which {
		p.replace(old, nil)
	}
}

func (p *Pauses) replace(old, next *Pause) {
	p.current.Store(next)
	if old != nil {
		close(old.Changed)
	}
}

// setPause answers CLIENT PAUSE milliseconds [WRITE | ALL]
// (https://redis.io/docs/latest/commands/client-pause/). Renewals of locks go on, because they are
// not commands of a client.
func setPause(by Caller, cmd resp.Command) bool {
	all := true
	switch {
	case len(cmd.Args) > 4:
		return by.Router.Fail(fmt.Sprintf(msgPauseArgs, cmd.Args[1]))
	case len(cmd.Args) == 4 && resp.IsWord(cmd.Args[3], "WRITE"):
		all = false
	case len(cmd.Args) == 4 && !resp.IsWord(cmd.Args[3], "ALL"):
		return by.Router.Fail(msgPauseMode)
	}
	millis, ok := resp.ParseInt(cmd.Args[2])
	switch {
	case !ok:
		return by.Router.Fail(msgPauseTimeout)
	case millis < 0:
		return by.Router.Fail(msgPauseNegative)
	case millis > math.MaxInt64/int64(time.Millisecond):
		return by.Router.Fail("ERR timeout is out of range")
	case !by.Router.Permitted("CLIENT", "PAUSE", "?"):
		return true
	}
	by.Pauses.extend(all, time.Now().Add(time.Duration(millis)*time.Millisecond))
	return by.Router.OK()
}

// endPause answers CLIENT UNPAUSE. It checks the right to CLIENT PAUSE instead, because UNPAUSE
// has no form without an effect on other clients of Redis.
func endPause(by Caller, _ resp.Command) bool {
	if !by.Router.Permitted("CLIENT", "PAUSE", "?") {
		return true
	}
	by.Pauses.end(nil)
	return by.Router.OK()
}
