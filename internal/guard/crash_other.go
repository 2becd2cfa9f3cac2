//go:build !unix

package guard

// AbortOnCrash does nothing here.
func AbortOnCrash() {}
