package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Denied says what Redis would not let a user do.
type Denied struct {
	Key bool // the key; otherwise the command
}

func (d *Denied) Error() string {
	if d.Key {
		return "upstream: no permission for the key"
	}
	return "upstream: no permission for the command"
}

// Permit asks Redis, by ACL DRYRUN on the node of the key, whether a lane's
// user may run a command with it; what Leash does for a client under its own
// user must be no more than the client may do itself. nil means yes, also for
// Leash's own user and for a Redis before 7, which cannot be asked. It blocks
// for a round trip; the error is a *Denied, Redis's own, or one of the network.
func (u *Upstream) Permit(ctx context.Context, lane Lane, command string, key []byte, more ...any) error {
	user := lane.User
	if user == "" {
		user = "default"
	}
	if user == u.serviceUser() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, u.cfg.UpstreamTimeout)
	defer cancel()
	node, err := u.clientFor(ctx, key)
	if err != nil {
		return fmt.Errorf("acl dryrun: %w", err)
	}
	answer, err := node.Do(ctx, append([]any{"ACL", "DRYRUN", user, command, key}, more...)...).Text()
	var refusal redis.Error
	switch {
	case err == nil && answer == "OK":
		return nil
	case err == nil:
		return &Denied{Key: strings.Contains(answer, " key")}
	case errors.As(err, &refusal) && strings.Contains(strings.ToLower(refusal.Error()), "unknown subcommand"):
		return nil
	}
	return fmt.Errorf("acl dryrun: %w", err)
}

// clientFor is the client of the master that owns the key's slot.
func (u *Upstream) clientFor(ctx context.Context, key []byte) (redis.UniversalClient, error) {
	if cluster, ok := u.Client().(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, string(key))
	}
	return u.Client(), nil
}
