package upstream

import (
	"context"

	"github.com/redis/go-redis/v9"

	"leash/proxy/dial"
)

// Ask runs f with a short-lived client of the upstream user for one node, for at most
// dial.AskTimeout.
func (u *Upstream) Ask(ctx context.Context, addr string, f func(context.Context, *redis.Client) error) error {
	err := u.Dialer.Ask(ctx, addr, f)
	// otherwise the caller's time ended first, which says nothing about the node
	if answered := err == nil || dial.IsReply(err); answered || ctx.Err() == nil {
		u.noteAnswer(addr, answered)
	}
	return err
}

// noteAnswer remembers whether a node answered when it was asked last.
func (u *Upstream) noteAnswer(addr string, answered bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if answered {
		delete(u.silentAddrs, addr)
	} else {
		u.silentAddrs[addr] = true
	}
}

// Commands returns the upstream's reply to COMMAND as go-redis decodes it, or nil if there is none.
func (u *Upstream) Commands(ctx context.Context) (commands []any) {
	for _, addr := range u.candidates() {
		err := u.Ask(ctx, addr, func(ctx context.Context, c *redis.Client) (err error) {
			commands, err = c.Do(ctx, "COMMAND").Slice()
			return err
		})
		if err == nil {
			return commands
		}
		u.log.Warn("cannot read the command table of redis: using the built-in one", "err", err)
	}
	return nil
}
