//go:build !linux

package slack

// Widen does nothing here.
func Widen() {}

// Narrow does nothing here.
func Narrow() {}
