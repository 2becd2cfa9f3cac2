package cli

import (
	"errors"
	"fmt"
	"strings"

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

func newStatus(servers *serverList) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the state of a Leash",
		Long:  "Show the state of a Leash: the fields of INFO leash, one a line. docs/operations.md explains them.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			reply, err := ask(c, servers, "INFO", "leash")
			if err != nil {
				return err
			}
			for line := range strings.Lines(fmt.Sprint(reply)) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
					fmt.Fprintln(c.OutOrStdout(), strings.Replace(strings.TrimPrefix(line, "leash_"), ":", " ", 1))
				}
			}
			return nil
		},
	}
}

func newHealth(servers *serverList) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Check that a Leash serves clients",
		Long: `Check that a Leash serves clients: it answers PING. A Leash that wants a password is healthy, too.
The exit status is 0 if it does, else 69. Container images use it as their health check.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			x, err := servers.open(c.Context())
			if err != nil && !strings.Contains(err.Error(), "NOAUTH") {
				return err
			}
			if err == nil {
				x.close()
			}
			fmt.Fprintln(c.OutOrStdout(), "ok")
			return nil
		},
	}
}

// ask sends one command to the first Leash that answers.
func ask(c *cobra.Command, servers *serverList, args ...any) (any, error) {
	x, err := servers.open(c.Context())
	if err != nil {
		return nil, err
	}
	defer x.close()
	reply, err := x.do(c.Context(), answerTime, args...)
	if err != nil {
		return nil, &exitError{exitFailed, errors.New(err.Error())}
	}
	return reply, nil
}
