package upstream

import (
	"context"

	"leash/proxy/dial"
)

// Ask runs f with a connection of Leash's own user to one node, for at most dial.AskTimeout.
func (u *Upstream) Ask(ctx context.Context, addr string, f func(*dial.Conn) error) error {
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

// Commands returns the upstream's reply to COMMAND, decoded, or nil if there is none.
func (u *Upstream) Commands(ctx context.Context) (commands []any) {
	for _, addr := range u.candidates() {
		err := u.Ask(ctx, addr, func(c *dial.Conn) (err error) {
			commands, err = c.List("COMMAND")
			return err
		})
		if err == nil {
			return commands
		}
		u.log.Warn("cannot read the command table of redis: using the built-in one", "err", err)
	}
	return nil
}
