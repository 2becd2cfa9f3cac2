package lockcmd

import (
	"context"

	"leash/lockcmd/hold"
)

// StopTimeout is how long requests may still be sent and answered at the end.
const StopTimeout = stopTimeout

// FailureText is the reply for a failure of an acquire.
var FailureText = failureText

// LatchQueue is the queue of those who wait for a latch.
var LatchQueue = latchQueue

// Lost tells of the loss of a hold.
func (s *Service) Lost(h *hold.Hold, reason string) { afterwards{s}.Lost(h, reason) }

// WarnOfEviction warns about masters that may evict locks.
func (s *Service) WarnOfEviction(ctx context.Context) { s.warnOfEviction(ctx) }
