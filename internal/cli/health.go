package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newHealth(servers *serverList) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Check that a Leash serves clients",
		Long: `Check that a Leash serves clients: it answers PING. A Leash that wants a password is healthy, too.
The exit status is 0 if it does, 1 if it refuses the password, and 69 if no Leash answers. Container
images use it as their health check.`,
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
