package redistest

import (
	"errors"
	"time"
)

// finalError is an error that poll returns at once.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// poll calls try until it returns nil or a finalError, or until timeout has passed. It returns the
// last error.
func poll(timeout time.Duration, try func() error) error {
	deadline := time.Now().Add(timeout)
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		err := try()
		var final finalError
		if err == nil || errors.As(err, &final) || time.Now().After(deadline) {
			return err
		}
		pause.Reset(wait)
		<-pause.C
	}
}
