//go:build !unix

package program

// conceal does nothing: the system cannot start another program in this process.
func conceal() {}
