package rights

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/resp"
)

// ErrNoCheck means that Redis says nothing about a user's rights. Leash's own user may not send ACL
// DRYRUN, and that user may not send EVAL. Or Redis answers with another error, as while it loads
// its data.
var ErrNoCheck = errors.New("rights: the rights of a user cannot be checked")

// errNoDryRun means that Redis does not let Leash's own user send ACL DRYRUN.
var errNoDryRun = fmt.Errorf("acl dryrun: %w", ErrNoCheck)

// askScriptFor is how long Leash asks by scripts before it tries ACL DRYRUN again.
const askScriptFor = 10 * time.Second

// checkScript returns 1 if the user who runs it may run the command in ARGV, and 0 if not. It runs
// no command. It declares no keys, because Redis would also check that the user may read and write
// them. Redis has redis.acl_check_cmd since version 7.0.
const checkScript = `return redis.acl_check_cmd(unpack(ARGV)) and 1 or 0`

// askScript asks with a script that the lane's user runs. Any node can answer. A Denied does not
// say whether the key or the command is denied.
func (c *Checker) askScript(ctx context.Context, q question, lane dial.Lane, keys [][]byte) error {
	for _, key := range keys {
		args := []string{"EVAL", checkScript, "0", q.command}
		if key != nil {
			args = append(args, string(key))
		}
		request := resp.AppendCommand(nil, append(args, q.more...)...)
		reply, err := c.up.FirstAnswer(ctx, nil, func(ctx context.Context, n *links.Node) ([]byte, error) {
			return n.Link(lane).Ask(ctx, request)
		})
		switch {
		case err != nil:
			return fmt.Errorf("acl check: %w", err)
		case string(reply) == ":1\r\n":
		case string(reply) == ":0\r\n":
			return &Denied{}
		case strings.HasPrefix(string(reply), "-NOPERM"):
			return fmt.Errorf("acl check: %w: %s", ErrNoCheck, strings.TrimSpace(string(reply[1:])))
		default:
			return fmt.Errorf("acl check: unexpected reply %s", strings.TrimSpace(string(reply)))
		}
	}
	return nil
}
