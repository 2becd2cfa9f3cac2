package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

// lockInfo is a lock as leash locks shows it. The names in JSON are those of LOCK.INFO.
type lockInfo struct {
	Key     string `json:"key"`
	Mode    string `json:"mode"`
	Owner   string `json:"owner"`
	Token   int64  `json:"token"`
	Age     int64  `json:"age-ms"`
	TTL     int64  `json:"ttl-ms"`
	Client  string `json:"client"`
	Waiters int64  `json:"waiters"`
}

func newLocks(servers *serverList) *cobra.Command {
	var asJSON bool
	match := "*"
	c := &cobra.Command{
		Use:   "locks [flags]",
		Short: "Show who holds which lock",
		Long: `Show who holds which lock, through any Leash in front of the same Redis. Semaphores are not shown.
WAITERS counts those that wait on the Leash that is asked. If a master cannot be asked, the locks of
the others are shown, the error names the master, and the exit status is 1.`,
		Example: `  leash locks --match 'order:*'
  leash locks --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			x, err := servers.open(c.Context())
			if err != nil {
				return err
			}
			defer x.close()
			list, failure := listLocks(c.Context(), x, match)
			write := writeTable
			if asJSON {
				write = writeJSON
			}
			if len(list) > 0 || failure == nil {
				if err := write(c.OutOrStdout(), list); err != nil {
					return err
				}
			}
			if failure != nil {
				return &exitError{exitFailed, failure}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each lock, one a line")
	c.Flags().StringVar(&match, "match", match, "only keys that match this pattern, as in KEYS of Redis")
	return c
}

// listLocks reads all locks whose key matches. With an error, the list has those that it could
// read.
func listLocks(ctx context.Context, x *session, match string) (list []lockInfo, err error) {
	seen := make(map[string]bool)
	missing := make(map[string]error)
	for cursor := "0"; ; {
		reply, err := x.do(ctx, answerTime, "LOCK.LIST", cursor, "MATCH", match, "COUNT", 1000, "PARTIAL")
		if err != nil {
			return list, err
		}
		page, ok := reply.([]any)
		if !ok || len(page) != 3 {
			return list, fmt.Errorf("unexpected reply %v", reply)
		}
		if node, _ := page[2].([]any); len(node) == 2 {
			missing[fmt.Sprint(node[0])] = fmt.Errorf("the locks of %v are missing: %v", node[0], node[1])
		}
		keys, _ := page[1].([]any)
		for _, k := range keys {
			key, ok := k.(string)
			if !ok || seen[key] {
				continue
			}
			seen[key] = true
			info, err := readLock(ctx, x, key)
			if err != nil {
				return list, fmt.Errorf("%q: %w", key, err)
			}
			if info != nil {
				list = append(list, *info)
			}
		}
		if cursor = fmt.Sprint(page[0]); cursor == "0" {
			return list, errors.Join(slices.Collect(maps.Values(missing))...)
		}
	}
}

// readLock returns nil for a lock that is free by now, and for a semaphore.
func readLock(ctx context.Context, x *session, key string) (*lockInfo, error) {
	reply, err := x.do(ctx, answerTime, "LOCK.INFO", key)
	var said redis.Error
	if errors.Is(err, redis.Nil) || errors.As(err, &said) && redis.HasErrorPrefix(said, "WRONGTYPE") {
		return nil, nil
	}
	pairs, ok := reply.([]any)
	if err != nil || !ok {
		return nil, err
	}
	fields := make(map[string]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		fields[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	text := func(name string) string { s, _ := fields[name].(string); return s }
	number := func(name string) int64 { n, _ := fields[name].(int64); return n }
	if text("state") != "held" {
		return nil, nil
	}
	return &lockInfo{
		Key: key, Mode: text("mode"), Owner: text("owner"), Token: number("token"), Age: number("age-ms"),
		TTL: number("ttl-ms"), Client: text("client"), Waiters: number("waiters"),
	}, nil
}

func writeJSON(w io.Writer, list []lockInfo) error {
	encoder := json.NewEncoder(w)
	for _, l := range list {
		if err := encoder.Encode(l); err != nil {
			return &exitError{exitFailed, err}
		}
	}
	return nil
}

func writeTable(w io.Writer, list []lockInfo) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tMODE\tAGE\tTTL\tWAITERS\tTOKEN\tCLIENT\tOWNER")
	for _, l := range list {
		fmt.Fprintf(table, "%q\t%s\t%s\t%s\t%d\t%d\t%q\t%q\n", l.Key, l.Mode, seconds(l.Age), seconds(l.TTL), l.Waiters,
			l.Token, l.Client, l.Owner)
	}
	if err := table.Flush(); err != nil {
		return &exitError{exitFailed, err}
	}
	return nil
}

// seconds rounds milliseconds for people.
func seconds(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}
