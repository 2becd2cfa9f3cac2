package rights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// Denied is an action that Redis would not let a user do.
type Denied struct {
	Key bool // the key; otherwise the command
}

func (d *Denied) Error() string {
	if d.Key {
		return "rights: no permission for the key"
	}
	return "rights: no permission for the command"
}

// Permit asks Redis with ACL DRYRUN whether a lane's user may run a command with each key. It asks
// the node of the key. Leash uses it before it does something for a client under its own user, so
// that the client cannot do more than its own user may. Without keys, it asks any node about the
// command alone.
//
// nil means yes. It is also nil for Leash's own user, and for a Redis before version 7, which
// cannot be asked. The error is a *Denied, dial.ErrRefused if the user no longer exists, ErrNoCheck
// if Redis does not say, or one of the network. If a node cannot be reached, another node answers
// for it. Permit blocks for a round trip. If Redis refuses ACL DRYRUN, a script of the user asks
// instead: then it blocks for a round trip for each key.
func (c *Checker) Permit(ctx context.Context, lane dial.Lane, keys [][]byte, command string,
	more ...string) error {
	q := question{user: lane.ACLUser(), command: command, more: more}
	if c.isOwn(q.user) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.up.Dialer.Timeout())
	defer cancel()
	if len(keys) == 0 {
		keys = noKey
	}
	if time.Now().UnixNano() < c.noDryRunUntil.Load() {
		return c.askScript(ctx, q, lane, keys)
	}
	err := c.askDryRun(ctx, q, keys)
	if !errors.Is(err, errNoDryRun) {
		return err
	}
	c.noDryRunUntil.Store(time.Now().Add(askScriptFor).UnixNano())
	return c.askScript(ctx, q, lane, keys)
}

// askDryRun asks by ACL DRYRUN, all nodes at once.
func (c *Checker) askDryRun(ctx context.Context, q question, keys [][]byte) error {
	parts := c.byNode(keys)
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() {
			errs[i] = guard.Call(nil, "question for rights", func() error {
				replies, err := c.ask(ctx, p.node, q.dryRuns(p.keys), len(p.keys))
				if err == nil {
					err = verdict(replies)
				}
				return err
			})
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("acl dryrun: %w", err)
		}
	}
	return nil
}

// Watch opens a connection of a lane's user to the node of a key, even if none of the user's
// commands go there. When the user is deleted, Redis ends the connection, and Leash notices that:
// it calls OnRefused's function. It does not block.
func (c *Checker) Watch(lane dial.Lane, key []byte) {
	if lane.User == "" || c.isOwn(lane.User) {
		return
	}
	if n := c.up.Topology().Node(slots.Of(key)); n != nil {
		n.Link(lane).Open()
	}
}

type keysOfNode struct {
	node *links.Node // nil: no master does, or the question is about the command alone
	keys [][]byte
}

func (c *Checker) byNode(keys [][]byte) (parts []keysOfNode) {
	t := c.up.Topology()
	for _, key := range keys {
		var node *links.Node
		if key != nil {
			node = t.Node(slots.Of(key))
		}
		i := slices.IndexFunc(parts, func(p keysOfNode) bool { return p.node == node })
		if i < 0 {
			i, parts = len(parts), append(parts, keysOfNode{node: node})
		}
		parts[i].keys = append(parts[i].keys, key)
	}
	return parts
}

// question asks whether a user may run a command with a key and the arguments after it.
type question struct {
	user, command string
	more          []string
}

// noKey stands for the keys of a question about a command alone.
var noKey = [][]byte{nil}

// dryRuns returns one ACL DRYRUN for each key (https://redis.io/docs/latest/commands/acl-dryrun/).
func (q question) dryRuns(keys [][]byte) (commands []byte) {
	for _, key := range keys {
		args := []string{"ACL", "DRYRUN", q.user, q.command}
		if key != nil {
			args = append(args, string(key))
		}
		commands = resp.AppendCommand(commands, append(args, q.more...)...)
	}
	return commands
}

// verdict reads replies to ACL DRYRUN. The error is that of the first which does not permit.
func verdict(replies []byte) error {
	for len(replies) > 0 {
		reply, rest, ok := resp.Cut(replies)
		if !ok {
			return resp.ErrFrame
		}
		if err := verdictOf(reply); err != nil {
			return err
		}
		replies = rest
	}
	return nil
}

func verdictOf(reply []byte) error {
	text := strings.TrimSpace(string(reply[1:]))
	switch {
	case text == "OK":
		return nil
	case reply[0] != '-':
		return &Denied{Key: strings.Contains(text, " key")}
	case strings.Contains(strings.ToLower(text), "unknown subcommand"): // Redis before 7
		return nil
	case strings.HasPrefix(text, "ERR User '"): // the text goes on with "... not found"
		return fmt.Errorf("%w: %s", dial.ErrRefused, text)
	case resp.HasCode(reply, "NOPERM"), strings.HasPrefix(text, "ERR unknown command 'ACL'"):
		return errNoDryRun
	}
	return fmt.Errorf("%w: %s", ErrNoCheck, text)
}
