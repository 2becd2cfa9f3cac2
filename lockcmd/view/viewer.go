package view

import "leash/lockcmd/acquire"

// Viewer shows what one Leash holds, and its figures. Make one with New. It is safe for concurrent
// use.
type Viewer struct {
	acquirer *acquire.Acquirer
	recorder *Recorder
}

// New makes a Viewer of the holds and the waiters of a.
func New(a *acquire.Acquirer, recorder *Recorder) *Viewer { return &Viewer{a, recorder} }
