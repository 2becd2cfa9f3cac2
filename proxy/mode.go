package proxy

import (
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/subscribers"
)

// modes are the states of a session in which commands are handled differently. Only the loop's
// goroutine uses them.
type modes uint8

const (
	replySkip modes = 1 << iota // CLIENT REPLY SKIP: the next command is not answered
	modeMulti                   // between MULTI and EXEC
	// In RESP2, few commands are allowed, because a client could not distinguish replies from
	// messages.
	modeSubscribed
	modeRestricted // Leash refuses commands that Redis may permit (see restricted)
)

// inMode handles a command according to the session's modes. c is nil for a command in no table.
// handled is false if the modes do not concern the command. ok is false when the session ends.
func (s *session) inMode(c *command.Command, cmd resp.Command) (handled, ok bool) {
	switch {
	case s.modes&replySkip != 0:
		return true, s.dispatchMuted(cmd)
	}
	if s.modes&modeRestricted != 0 {
		if handled, ok := s.restricted(c, cmd); handled {
			return true, ok
		}
	}
	switch {
	case s.modes&modeMulti != 0:
		return true, s.queue(c, cmd)
	case s.modes&modeSubscribed == 0:
		return false, true
	}
	refusal := subscribers.Refusal(c, cmd)
	switch {
	case refusal == "":
		return false, true
	case !s.router.Ready(c, cmd):
		return true, true
	case c.Name == "exec":
		s.tx.End() // an EXEC that is refused ends WATCH too
	}
	return true, s.fail(refusal)
}

// clientReply answers CLIENT REPLY ON | OFF | SKIP
// (https://redis.io/docs/latest/commands/client-reply/). Leash does not send it to Redis. It
// discards the replies itself. Messages of channels are still sent.
func (s *session) clientReply(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	switch mode := cmd.Args[2]; {
	case resp.IsWord(mode, "ON"):
		s.unmute()
		return s.ok()
	case resp.IsWord(mode, "OFF"):
		s.replyOff, s.calls.Muted = true, true
		return true
	case resp.IsWord(mode, "SKIP"):
		if !s.replyOff {
			s.modes |= replySkip
		}
		return true
	}
	return s.fail(command.SyntaxError)
}

// unmute turns replies on again.
func (s *session) unmute() {
	s.replyOff, s.calls.Muted = false, false
	s.modes &^= replySkip
}

// unmuteBehind turns replies on again for later commands. If the current command follows CLIENT
// REPLY SKIP, it still gets no reply. RESET does this.
func (s *session) unmuteBehind() {
	skipped := s.calls.Muted && !s.replyOff
	s.unmute()
	s.calls.Muted = skipped
}

// dispatchMuted runs the command that follows CLIENT REPLY SKIP.
func (s *session) dispatchMuted(cmd resp.Command) bool {
	s.modes &^= replySkip
	s.calls.Muted = true
	ok := s.dispatch(cmd) && s.tx.AwaitQueued()
	s.calls.Muted = s.replyOff
	return ok
}
