package rights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"leash/internal/guard"
	"leash/proxy/dial"
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
// cannot be asked. The error is a *Denied, dial.ErrRefused if the user no longer exists,
// ErrNoCheck if Redis lets nobody ask, an error of Redis, or one of the network. If a node cannot
// be reached, another node answers for it. Permit blocks for a round trip. If Redis refuses ACL
// DRYRUN, a script of the user asks instead: then it blocks for a round trip for each key.
func (c *Checker) Permit(ctx context.Context, lane dial.Lane, keys [][]byte, command string,
	more ...string) error {
	q := question{user: userOf(lane), command: command, more: more}
	if c.isOwn(q.user) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.up.Timeout())
	defer cancel()
	if len(keys) == 0 {
		keys = noKey
	}
	if c.dryRun.refusedLately() {
		return c.askScript(ctx, q, lane, keys)
	}
	err := c.askDryRun(ctx, q, keys)
	if !refusesDryRun(err) {
		return err
	}
	c.dryRun.noteRefusal()
	return c.askScript(ctx, q, lane, keys)
}

// askDryRun asks by ACL DRYRUN.
func (c *Checker) askDryRun(ctx context.Context, q question, keys [][]byte) error {
	if keys[0] == nil {
		return q.askAny(ctx, c.up.Client())
	}
	nodes, err := c.byNode(ctx, keys)
	if err != nil {
		return fmt.Errorf("acl dryrun: %w", err)
	}
	if len(nodes) == 1 {
		return q.ask(ctx, nodes[0].client, nodes[0].keys)
	}
	return q.askAll(ctx, nodes)
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

// keysOfNode are keys that one master serves.
type keysOfNode struct {
	client redis.UniversalClient
	keys   [][]byte
}

// byNode groups keys by the master that owns their slot.
func (c *Checker) byNode(ctx context.Context, keys [][]byte) (nodes []keysOfNode, err error) {
	cluster, ok := c.up.Client().(*redis.ClusterClient)
	if !ok {
		return []keysOfNode{{c.up.Client(), keys}}, nil
	}
	for _, key := range keys {
		master, err := cluster.MasterForKey(ctx, string(key))
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(nodes, func(n keysOfNode) bool { return n.client == master })
		if i < 0 {
			i, nodes = len(nodes), append(nodes, keysOfNode{client: master})
		}
		nodes[i].keys = append(nodes[i].keys, key)
	}
	return nodes, nil
}

// question asks whether a user may run a command with a key and the arguments after it.
type question struct {
	user, command string
	more          []string
}

// noKey stands for the keys of a question about a command alone.
var noKey = [][]byte{nil}

// askAny asks any node about the command alone.
func (q question) askAny(ctx context.Context, client redis.UniversalClient) error {
	_, err := anyNode(ctx, client, func(ctx context.Context, node redis.UniversalClient) (struct{}, error) {
		return struct{}{}, q.ask(ctx, node, noKey)
	})
	return err
}

// anyNode asks any node. If that node does not answer soon, it asks all masters and returns the
// first answer. An error about rights is an answer, and so is one of Redis.
func anyNode[T any](ctx context.Context, client redis.UniversalClient,
	ask func(context.Context, redis.UniversalClient) (T, error)) (T, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return ask(ctx, client)
	}
	soon, cancel := context.WithTimeout(ctx, firstAskTimeout)
	defer cancel()
	answer, err := ask(soon, cluster)
	if err == nil || !silent(err) {
		return answer, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		one, failed := ask(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		if failed == nil || !silent(failed) {
			answer, err = one, failed
			stop() // the others need not answer any more
		}
		return nil
	})
	return answer, err
}

// askAll asks all nodes at once. Then it asks a node that answered about the keys of those that did
// not.
func (q question) askAll(ctx context.Context, nodes []keysOfNode) error {
	soon, cancel := context.WithTimeout(ctx, firstAskTimeout)
	defer cancel()
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			errs[i] = guard.Call(nil, "question for rights", func() error { return q.ask(soon, n.client, n.keys) })
		})
	}
	wg.Wait()
	answered := -1
	for i, err := range errs {
		if err != nil && !silent(err) {
			return err
		}
		if err == nil {
			answered = i
		}
	}
	if answered < 0 {
		return errs[0]
	}
	for i, err := range errs {
		if err == nil {
			continue
		}
		if err := q.ask(ctx, nodes[answered].client, nodes[i].keys); err != nil {
			return err
		}
	}
	return nil
}

// silent reports whether an error is not about rights.
func silent(err error) bool {
	var denied *Denied
	var refusal redis.Error
	return !errors.As(err, &denied) && !errors.As(err, &refusal)
}

// ask asks one node about keys, or about the command alone if there are none. The error is that of
// the first key that is not permitted.
func (q question) ask(ctx context.Context, node redis.UniversalClient, keys [][]byte) error {
	pipe := node.Pipeline()
	answers := make([]*redis.Cmd, len(keys))
	for i, key := range keys {
		args := []any{"ACL", "DRYRUN", q.user, q.command}
		if key != nil {
			args = append(args, key)
		}
		for _, arg := range q.more {
			args = append(args, arg)
		}
		answers[i] = pipe.Do(ctx, args...)
	}
	pipe.Exec(ctx) // each answer has its own error
	for _, a := range answers {
		answer, err := a.Text()
		var refusal redis.Error
		switch {
		case err == nil && answer == "OK":
		case err == nil:
			return &Denied{Key: strings.Contains(answer, " key")}
		case errors.As(err, &refusal) && strings.Contains(strings.ToLower(refusal.Error()), "unknown subcommand"):
		case errors.As(err, &refusal) && strings.HasPrefix(refusal.Error(), "ERR User '"):
			// the text goes on with "... not found"
			return fmt.Errorf("acl dryrun: %w: %w", dial.ErrRefused, err)
		default:
			return fmt.Errorf("acl dryrun: %w", err)
		}
	}
	return nil
}
