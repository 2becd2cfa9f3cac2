package proxy

import (
	"leash/proxy/command"
	"leash/proxy/resp"
)

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
