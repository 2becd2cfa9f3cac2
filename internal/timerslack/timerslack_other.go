//go:build !linux

package timerslack

// Widen does nothing here.
func Widen() {}

// Narrow does nothing here.
func Narrow() {}
