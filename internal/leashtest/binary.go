package leashtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// binaryDir is where Binary compiles; Main sets it.
var binaryDir string

var compile = sync.OnceValues(func() (string, error) {
	return Build(context.Background(), binaryDir, false)
})

// Main runs the tests of a package that call Binary, and removes the binary. It returns the status
// to exit with, for TestMain.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "leash-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaryDir = dir
	return m.Run()
}

// Binary is the path of a Leash that the first call compiles for all tests of the package. The
// package needs a TestMain that calls Main.
func Binary(tb testing.TB) string {
	tb.Helper()
	if binaryDir == "" {
		tb.Fatal("leashtest.Binary needs a TestMain that calls leashtest.Main")
	}
	binary, err := compile()
	if err != nil {
		tb.Fatal(err)
	}
	return binary
}
