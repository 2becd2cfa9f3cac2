package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newElect(servers *serverList) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "elect NAME [flags] -- PROGRAM [argument ...]",
		Short: "Run a program on one host at a time",
		Long: `Run a program on one host at a time: leader election.

The command waits until it has the lock NAME, without end, and then runs the program. If the lock is
lost, it ends the program and waits again. If the program ends by itself, the command releases the
lock and ends with the same exit status, so that a service manager can decide what follows.

The exit statuses are those of leash lock.`,
		Example: `  leash elect scheduler -- ./scheduler`,
		Args:    programArgs,
		RunE: func(c *cobra.Command, args []string) error {
			for {
				err := runUnder(c, servers, terms{key: args[0], block: true}, o, args[1:])
				if !errors.Is(err, errLost) {
					return err
				}
				fmt.Fprintln(c.ErrOrStderr(), "leash: stepped down:", err)
			}
		},
	}
	o.addTo(c)
	return c
}
