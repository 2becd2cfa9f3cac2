// Leash is a proxy for the Redis protocol. It adds locks that last as long as the client's
// connection. README.md says what it is for, docs/design.md how it works.
//
// With the name of a command as first argument (leash lock, leash status, …) it runs that command
// of internal/cli. Otherwise it is the proxy: internal/program makes its parts and runs them.
package main

import (
	"context"
	"os"

	"leash/internal/cli"
	"leash/internal/guard"
	"leash/internal/program"
)

func main() {
	guard.AbortOnCrash()
	if cli.Has(os.Args[1:]) {
		os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(program.Main())
}
