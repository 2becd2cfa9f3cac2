package merge

import "leash/proxy/resp"

// Errors for a command of several parts. NotSent is also the error of a part that was not sent.
const (
	NotSent       = "UPSTREAMDOWN Redis cannot be reached, the command was not executed"
	NotSentPartly = "UPSTREAMDOWN part of Redis cannot be reached, the command was executed on the rest only"
	Mismatch      = "ERR the nodes of Redis gave replies that do not fit together"
)

// Func makes one reply from several. ok is false if they do not fit together. It takes the bytes of
// the replies. An error among the replies is that of a spare one.
type Func func(replies []*Reply) (merged Reply, ok bool)

// Merge returns the reply to the whole command. If a part failed, that is its error. So a nil or a
// count is never wrong. An error of a spare reply goes to f instead.
func Merge(f Func, replies []*Reply) Reply {
	var failed *Reply
	executed := false
	for _, r := range replies {
		switch {
		case !r.isError():
			executed = true
		case failed == nil && !r.Spare:
			failed = r
		}
	}
	if failed != nil {
		if executed && string(failed.Bytes()) == "-"+NotSent+"\r\n" {
			return errorReply(NotSentPartly)
		}
		return failed.move()
	}
	if merged, ok := f(replies); ok {
		return merged
	}
	return errorReply(Mismatch)
}

func errorReply(message string) Reply { return Of(resp.AppendError(nil, message)) }

// First takes the first reply. It is for commands whose replies are all the same, such as OK.
func First(replies []*Reply) (Reply, bool) {
	if len(replies) == 0 {
		return Reply{}, false
	}
	return replies[0].move(), true
}

// Rewritten is for a command with one part. f changes its reply. f returns nil if the reply is not
// as expected.
func Rewritten(f func(reply []byte) []byte) Func {
	return func(replies []*Reply) (Reply, bool) {
		if len(replies) != 1 {
			return Reply{}, false
		}
		b := f(replies[0].Bytes())
		return Of(b), b != nil
	}
}
