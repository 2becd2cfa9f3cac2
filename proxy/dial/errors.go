package dial

import (
	"errors"
	"strings"
)

// ErrRefused means that Redis refuses the credential of a lane.
var ErrRefused = errors.New("upstream: credential refused")

// SameReason reports whether the texts of two errors have the same reason. Digits do not count:
// times, and the ports of Leash's own sockets, are different in each attempt.
func SameReason(a, b string) bool { return withoutDigits(a) == withoutDigits(b) }

func withoutDigits(reason string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, reason)
}

// Refusal says why there is no connection for a call, in words for the client. The call was not
// sent.
type Refusal struct {
	Reason string // begins with a lower-case letter, no end mark
}

// Error implements error.
func (r *Refusal) Error() string { return "upstream: " + r.Reason }
