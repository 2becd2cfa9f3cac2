//go:build !linux

package slack

// Widen does nothing here.
func Widen() {}
