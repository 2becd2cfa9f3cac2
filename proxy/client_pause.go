package proxy

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"leash/proxy/command"
	"leash/proxy/resp"
)

const (
	msgPauseTimeout  = "ERR timeout is not an integer or out of range"
	msgPauseNegative = "ERR timeout is negative"
	msgPauseMode     = "ERR CLIENT PAUSE mode must be WRITE or ALL"
	msgPauseArgs     = "ERR unknown subcommand or wrong number of arguments for '%s'. Try CLIENT HELP."
)

// pause is one CLIENT PAUSE. It delays commands of clients until a time. It is immutable.
type pause struct {
	all     bool // all commands, not only those that may write
	until   time.Time
	changed chan struct{} // closed when the pause is replaced or ended
}

// pauses has the current pause. The zero value has none. It is safe for concurrent use.
type pauses struct {
	current atomic.Pointer[pause] // nil: none. It may be over, so every reader checks the time
	mu      sync.Mutex            // guards changes
}

// extend combines a new pause with the current one. The result ends at the later of the two times.
// It delays every command that one of the two delays.
func (p *pauses) extend(all bool, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &pause{all: all, until: until, changed: make(chan struct{})}
	old := p.current.Load()
	if old != nil && time.Now().Before(old.until) {
		next.all = all || old.all
		if old.until.After(until) {
			next.until = old.until
		}
	}
	p.replace(old, next)
}

// end ends the current pause if it is which. A nil which means any pause.
func (p *pauses) end(which *pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.current.Load(); which == nil || old == which {
		p.replace(old, nil)
	}
}

func (p *pauses) replace(old, next *pause) {
	p.current.Store(next)
	if old != nil {
		close(old.changed)
	}
}

// clientPause answers CLIENT PAUSE milliseconds [WRITE | ALL]
// (https://redis.io/docs/latest/commands/client-pause/). Renewals of locks go on, because they are
// not commands of a client.
func (s *session) clientPause(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	all := true
	switch {
	case len(cmd.Args) > 4:
		return s.fail(fmt.Sprintf(msgPauseArgs, cmd.Args[1]))
	case len(cmd.Args) == 4 && resp.IsWord(cmd.Args[3], "WRITE"):
		all = false
	case len(cmd.Args) == 4 && !resp.IsWord(cmd.Args[3], "ALL"):
		return s.fail(msgPauseMode)
	}
	millis, ok := resp.ParseInt(cmd.Args[2])
	switch {
	case !ok:
		return s.fail(msgPauseTimeout)
	case millis < 0:
		return s.fail(msgPauseNegative)
	case millis > math.MaxInt64/int64(time.Millisecond):
		return s.fail("ERR timeout is out of range")
	case !s.router.Permitted("CLIENT", "PAUSE", "?"):
		return true
	}
	s.server.pauses.extend(all, time.Now().Add(time.Duration(millis)*time.Millisecond))
	return s.ok()
}

// clientUnpause answers CLIENT UNPAUSE. It checks the right to CLIENT PAUSE instead, because
// UNPAUSE has no form without an effect on other clients of Redis.
func (s *session) clientUnpause(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) || !s.router.Permitted("CLIENT", "PAUSE", "?") {
		return true
	}
	s.server.pauses.end(nil)
	return s.ok()
}

// delays reports whether the pause delays a command. It delays only a command that Redis or lockcmd
// would run, and none that would be refused. c is nil for an unknown command.
func (p *pause) delays(s *session, c *command.Command, cmd resp.Command) bool {
	if c == nil || !s.router.Authenticated() || !c.ArityOK(cmd.Args) {
		return false
	}
	return p.all || c.MayPropagate() || c.Name == "exec" && s.tx.Propagates()
}

// awaitUnpaused waits until no pause delays the command. It returns false when the session ends
// first. The command must then not run.
func (s *session) awaitUnpaused(c *command.Command, cmd resp.Command) bool {
	for {
		p := s.server.pauses.current.Load()
		if p == nil || !p.delays(s, c, cmd) {
			return true
		}
		left := time.Until(p.until)
		if left <= 0 {
			s.server.pauses.end(p)
			continue
		}
		s.updateDescription()
		if !s.tx.AwaitQueued() {
			return false
		}
		s.out.Flush()
		gone := make(chan struct{})
		if !s.whileWatched(&blocked{}, sync.OnceFunc(func() { close(gone) }), func() {
			s.sleep(left, p.changed, gone)
		}) || s.isCut() {
			return false
		}
	}
}

// sleep waits until d is over, one of the channels is closed, or the session is ended.
func (s *session) sleep(d time.Duration, changed, gone <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-gone:
	case <-s.ctx.Done():
	}
}
