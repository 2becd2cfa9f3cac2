package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

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
