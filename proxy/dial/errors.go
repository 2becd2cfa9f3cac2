package dial

import "errors"

// ErrRefused means that Redis refuses the credential of a lane.
var ErrRefused = errors.New("upstream: credential refused")

// Refusal says why there is no connection for a call, in words for the client. The call was not
// sent.
type Refusal struct {
	Reason string // begins with a lower-case letter, no end mark
}

// Error implements error.
func (r *Refusal) Error() string { return "upstream: " + r.Reason }
