package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newBreak(servers *serverList) *cobra.Command {
	return &cobra.Command{
		Use:   "break KEY",
		Short: "End a lock against its holder's will",
		Long: `End a lock against its holder's will. The holder is told first. Look with leash locks who that is.
Exit status 0 says that the lock has no holder now.`,
		Example: `  leash break order:42`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			reply, err := ask(c, servers, "LOCK.BREAK", args[0])
			if err != nil {
				return err
			}
			said, known := map[any]string{
				int64(0): "the lock was free",
				int64(1): "the lock is broken, its holder was told",
				int64(2): "the lock is broken, nobody confirmed that its holder knows",
			}[reply]
			if !known {
				return &exitError{exitFailed, fmt.Errorf("unexpected reply %v", reply)}
			}
			fmt.Fprintln(c.OutOrStdout(), said)
			return nil
		},
	}
}
