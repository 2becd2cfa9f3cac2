package proxy

import "leash/proxy/resp"

// modes are states of a session in which commands are not treated as usual.
// They belong to the loop's goroutine.
type modes uint8

const (
	replySkip modes = 1 << iota // CLIENT REPLY SKIP: the next command is not answered
	modeMulti                   // between MULTI and EXEC
	// in RESP2: few commands are allowed, because replies could not be told from messages
	modeSubscribed
)

// inMode treats a command as the session's modes want it; c is nil for one
// that is in no table. handled is false when it is to be treated as usual, ok
// is false when the session ends.
func (s *session) inMode(c *command, cmd resp.Command) (handled, ok bool) {
	switch {
	case s.modes&replySkip != 0:
		return true, s.dispatchMuted(cmd)
	case s.modes&modeMulti != 0:
		return true, s.tx.take(c, cmd)
	case s.modes&modeSubscribed != 0:
		return s.whileSubscribed(c, cmd)
	}
	return false, true
}
